package accel

import (
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
)

// TestKey: what was measured for a user counts no more when he is another one, or
// has joined a group, which may be that of /dev/kvm.
func TestKey(t *testing.T) {
	keyOf := func(c *syscall.Credential) key {
		k, err := New(Config{Credential: c}).key(vm.AccelAuto)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	outside := keyOf(&syscall.Credential{Uid: 1001, Gid: 1001})
	for name, tc := range map[string]struct {
		credential *syscall.Credential
		same       bool
	}{
		"the same":       {&syscall.Credential{Uid: 1001, Gid: 1001}, true},
		"another user":   {&syscall.Credential{Uid: 1002, Gid: 1001}, false},
		"another group":  {&syscall.Credential{Uid: 1001, Gid: 104}, false},
		"one group more": {&syscall.Credential{Uid: 1001, Gid: 1001, Groups: []uint32{104}}, false},
	} {
		if got := keyOf(tc.credential) == outside; got != tc.same {
			t.Errorf("%s: the same key: %t, want %t", name, got, tc.same)
		}
	}
	if own := keyOf(nil); own != keyOf(nil) {
		t.Error("our own key changes")
	}
}
