//go:build integration

package e2e_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
)

// makeFiles makes what a copy of files would lose, and 500 files to rewrite.
const makeFiles = `set -e
cd /workspace; mkdir -p tree many
echo text > tree/plain; chmod 2751 tree/plain
touch -d '2001-02-03 04:05:06.123456789 UTC' tree/plain
setfattr -n user.colour -v blue tree/plain 2>/dev/null || python3 -c "import os; os.setxattr('tree/plain', 'user.colour', b'blue')"
ln -s plain tree/link; ln tree/plain tree/hard; mkfifo tree/pipe
truncate -s 300M tree/sparse; printf end | dd of=tree/sparse bs=1 seek=200000000 conv=notrunc status=none
for i in $(seq 500); do head -c 4096 /dev/urandom > many/$i; done`

// rewriteFiles rewrites the 500 in place, and writes nothing else there: the blocks
// of a file that is made and removed would count, too.
const rewriteFiles = `cd /workspace/many && head -c 2048000 /dev/urandom > /tmp/new &&
for i in $(seq 500); do dd if=/tmp/new of=$i bs=4096 skip=$((i-1)) count=1 conv=notrunc status=none || exit; done; sync`

// describeFiles says all of it but for times of directories.
const describeFiles = `cd /workspace
find . -path ./lost+found -prune -o -printf '%p %y %m %U:%G %s %b %T@ %l\n' | grep -v ' d ' | sort
find . -path ./lost+found -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
python3 -c "import os; print(os.getxattr('tree/plain', 'user.colour'))"`

// TestWorkspaceOutlivesItsDesktop keeps files in the store and finds them in another desktop; what
// was rewritten costs about that; a flipped byte fails closed.
func TestWorkspaceOutlivesItsDesktop(t *testing.T) {
	files := "files-" + strings.ToLower(rand.Text()[:8]) // the host of the tests is kept
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 1024}, api.StageDrawn)
	d.sh(t, makeFiles)
	first, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files})
	if err != nil {
		t.Fatal(err)
	}
	if !first.Frozen || first.Full == "" {
		t.Errorf("first %+v", first)
	}
	d.sh(t, rewriteFiles)
	want := d.sh(t, describeFiles)
	second, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("first: %d bytes, frozen %.0f ms; second: %d bytes, frozen %.0f ms", first.Added, first.FrozenMS, second.Added, second.FrozenMS)
	if second.Full != "" || second.Added > 2*500*4096 {
		t.Errorf("500 files of 4 KiB rewritten added %d bytes; full: %q", second.Added, second.Full)
	}
	other := breakable(t, api.CreateDesktop{Workspace: files}, api.StageDrawn)
	if got := other.sh(t, describeFiles); got != want {
		t.Errorf("restored is\n%s\nwant\n%s", got, want)
	}
	third, err := other.Checkpoint(t.Context(), api.CreateCheckpoint{})
	if err != nil || third.Full != "" || third.Parent != second.Ref || third.Added > 1<<20 {
		t.Errorf("checkpoint of a restored desktop: %+v, %v", third, err)
	}
	damagePack(t, second.Ref)
	v, err := host.Client.Workspaces().Verify(t.Context(), files)
	if err != nil || v.OK || len(v.Damaged) == 0 {
		t.Fatalf("verify: %+v, %v", v, err)
	}
	broken, err := host.Client.Desktops().Create(t.Context(), api.CreateDesktop{Image: "debian-xfce", Workspace: files})
	if err == nil {
		defer broken.Delete(t.Context()) //nolint:errcheck // it has nothing
		_, err = broken.Wait(t.Context(), api.StageDrawn, 0)
	}
	if err == nil || !strings.Contains(err.Error(), "packs/"+second.Ref) {
		t.Errorf("restore of a damaged workspace: %v", err)
	}
}

// damagePack flips a byte in the middle of a checkpoint's first pack.
func damagePack(t *testing.T, ref string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(host.Data, "blobs", "packs", ref, "*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs: %v, %v", packs, err)
	}
	b, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.Chmod(packs[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(packs[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
}
