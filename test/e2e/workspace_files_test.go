//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// makeOdd makes what only root may, besides makeFiles.
const makeOdd = `set -e
cd /workspace; mkdir odd
sudo mknod odd/null c 1 3; sudo mknod odd/disk b 7 200
touch odd/owned odd/trusted odd/acl odd/capable; sudo chown 1234:5678 odd/owned; sudo chmod 4755 odd/owned
sudo python3 - <<'END'
import os, struct
os.setxattr('odd/trusted', 'trusted.deskfork', bytes(range(256)))
os.setxattr('odd/capable', 'security.capability', struct.pack('<5I', 0x02000001, 1 << 10, 0, 0, 0))
acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e) for e in
    [(1, 6, 0xffffffff), (2, 4, 1234), (4, 4, 0xffffffff), (16, 4, 0xffffffff), (32, 0, 0xffffffff)])
os.setxattr('odd/acl', 'system.posix_acl_access', acl)
END
touch "odd/$(printf 'new\nline')" "odd/$(printf '\344')" odd/ü`

// changeFiles changes one thing of some.
const changeFiles = `set -e
cd /workspace
printf more >>tree/plain; touch -d '2001-02-03 04:05:06.123456789 UTC' tree/plain
printf x | dd of=tree/sparse bs=1 seek=100000000 conv=notrunc status=none
rm many/500; touch many/501; chmod 700 many/1
sudo setfattr -x trusted.deskfork odd/trusted 2>/dev/null || sudo python3 -c "import os; os.removexattr('odd/trusted', 'trusted.deskfork')"`

var changed = []string{
	"changed many/ time", "removed many/500", "changed many/1 mode", "added many/501", "changed odd/trusted attributes",
	"changed tree/hard content,mode", "changed tree/plain mode", // a write takes set-gid away
	"changed tree/sparse content,time",
}

// TestWorkspaceFilesGoOutAndIn: what goes through a tar and back differs from a
// checkpoint before it by what was changed, and by nothing else; a fork's line
// begins cheaply beside its parent's.
func TestWorkspaceFilesGoOutAndIn(t *testing.T) {
	files := "tar-" + strings.ToLower(rand.Text()[:8])
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn)
	d.sh(t, makeFiles+"\n"+makeOdd)
	first, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files})
	if err != nil {
		t.Fatal(err)
	}
	d.sh(t, changeFiles)
	second, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{})
	if err != nil {
		t.Fatal(err)
	}
	w := host.Client.Workspaces()
	var tar bytes.Buffer
	if err := w.Export(t.Context(), files, "debian-xfce", &tar); err != nil {
		t.Fatal(err)
	}
	if tar.Len() > 8<<20 {
		t.Errorf("%d bytes of tar: holes are written out", tar.Len())
	}
	back, err := w.Import(t.Context(), files+"-back", api.ImportWorkspace{Image: "debian-xfce", SizeMiB: 600}, &tar)
	if err != nil || back.Size != 600<<20 {
		t.Fatalf("import %+v, %v", back, err)
	}
	var got []string
	for f, err := range w.Diff(t.Context(), files+"@"+first.Ref, files+"-back", "debian-xfce") {
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == "dir" {
			f.Path += "/"
		}
		got = append(got, strings.TrimSuffix(f.Change+" "+f.Path+" "+strings.Join(f.Fields, ","), " "))
	}
	want := slices.Sorted(slices.Values(changed))
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	left, err := host.Client.Desktops().List(t.Context(), client.Filter{Labels: map[string]string{"deskfork.throw-away": ""}})
	if err != nil || len(left) > 0 {
		t.Errorf("throw-away desktops are left: %+v, %v", left, err)
	}
	forkLine(t, d, files, second)
}

// forkLine publishes of a child in a line of its own.
func forkLine(t *testing.T, d desk, files string, parent api.Checkpoint) {
	t.Helper()
	children, err := d.Fork(t.Context(), api.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	child := desk{children[0]}
	t.Cleanup(func() {
		if err := child.Delete(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := child.Wait(t.Context(), api.StageDrawn, 0); err != nil {
		t.Fatal(err)
	}
	child.sh(t, "head -c 1000000 /dev/urandom > /workspace/child")
	if _, err := child.Checkpoint(t.Context(), api.CreateCheckpoint{}); !is(err, api.CodeInvalid) {
		t.Errorf("a fork that names no workspace: %v", err)
	}
	c, err := child.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files + "-child"})
	if err != nil || c.Full != "" || c.Parent != parent.Ref || c.Added > 4<<20 {
		t.Errorf("a fork's first checkpoint %+v, %v", c, err)
	}
}
