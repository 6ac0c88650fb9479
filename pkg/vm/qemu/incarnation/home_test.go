package incarnation_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

// TestMakeSharedBehindAClosedDirectory: what QEMU's user could not reach is said
// before a machine starts, with the directory that is in the way.
func TestMakeSharedBehindAClosedDirectory(t *testing.T) {
	t.Parallel()
	closed := t.TempDir() // what is made there is open to others, and it is not
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "data", "desktops")
	r := incarnation.Root{Data: filepath.Join(closed, "data"), User: &owner.User{UID: 54321, GID: 54321}}
	if err := r.MakeShared(dir); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "pass through /") {
		t.Errorf("MakeShared says %v", err)
	}
	r.User = nil // our own
	if err := r.MakeShared(dir); err != nil {
		t.Error(err)
	}
}
