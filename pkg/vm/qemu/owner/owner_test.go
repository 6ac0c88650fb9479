package owner_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

func TestMay(t *testing.T) {
	t.Parallel()
	file := unix.Stat_t{Uid: 10, Gid: 20, Mode: 0o640}
	for name, tc := range map[string]struct {
		user owner.User
		want uint32
		ok   bool
	}{
		"root":                 {owner.User{}, 6, true},
		"owner":                {owner.User{UID: 10}, 6, true},
		"group reads":          {owner.User{UID: 11, GID: 20}, 4, true},
		"group does not write": {owner.User{UID: 11, GID: 20}, 6, false},
		"extra group reads":    {owner.User{UID: 11, GID: 1, Groups: []uint32{20}}, 4, true},
		"other":                {owner.User{UID: 11, GID: 1}, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.user.May(file, tc.want); got != tc.ok {
				t.Errorf("May = %v, want %v", got, tc.ok)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	u := &owner.User{UID: 54321, GID: 54321}
	if got := u.Unreachable(filepath.Join(dir, "not-there-yet")); got == "" {
		t.Error("a closed directory is reachable")
	}
	if got := u.Unreachable("/usr/not-there-yet"); got != "" {
		t.Errorf("%s blocks the way to /usr", got)
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	if _, err := owner.Lookup("no such user"); err == nil {
		t.Error("found a user that is not there")
	}
	if _, err := owner.Lookup("root"); err == nil {
		t.Error("took root")
	}
	if u, err := owner.Lookup("nobody"); err != nil || u.UID == 0 || u.Credential().Uid != u.UID {
		t.Errorf("nobody = %+v, %v", u, err)
	}
}
