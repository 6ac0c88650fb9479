//go:build integration && more

package e2e_test

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
)

// manyFiles makes 10,000 in folders of 1,000, the last of which has the longest
// names there are, in several scripts.
const manyFiles = `python3 - <<'END'
import os
os.chdir('/workspace')
for d in range(10):
    os.mkdir(f'{d:02}')
    for i in range(1000):
        name = f'{i:03}'
        if d == 9:
            name += ('ü' * 126, '文' * 84, '\u0301' * 126, 'x' * 252)[i % 4]
        with open(f'{d:02}/{name}', 'w') as f:
            f.write(name)
END
sync`

// TestLongWorkspaceOfManyFiles: what is told of few files is told of ten
// thousand, and they come out and in.
func TestLongWorkspaceOfManyFiles(t *testing.T) {
	beside(t)
	files := workspaceName()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn)
	d.sh(t, manyFiles)
	first, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files})
	if err != nil {
		t.Fatal(err)
	}
	d.sh(t, "cd /workspace; echo more >> 00/000; rm 03/500; touch 08/new")
	if _, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{}); err != nil {
		t.Fatal(err)
	}
	d.remove(t)
	w := host.Client.Workspaces()
	out, in := io.Pipe()
	counted := make(chan int, 1)
	back, forth := io.Pipe()
	go func() { in.CloseWithError(w.Export(t.Context(), files, "debian-xfce", in)) }()
	go func() {
		n, entries := 0, tar.NewReader(io.TeeReader(out, forth))
		for {
			h, err := entries.Next()
			if err != nil {
				if errors.Is(err, io.EOF) {
					_, err = io.Copy(forth, out) // what is behind its end
				}
				forth.CloseWithError(err)
				break
			}
			if h.Typeflag == tar.TypeReg {
				n++
			}
		}
		counted <- n
	}()
	if _, err := w.Import(t.Context(), files+"-back", api.ImportWorkspace{Image: "debian-xfce", SizeMiB: 512}, back); err != nil {
		t.Fatal(err)
	}
	if n := <-counted; n != 10_000 {
		t.Errorf("%d files in the tar", n)
	}
	for other, want := range map[string][]string{
		files:           {"added 08/new", "changed 00/000", "changed 03", "changed 08", "removed 03/500"},
		files + "-back": {"added 08/new", "changed 00/000", "changed 03", "changed 08", "removed 03/500"},
	} {
		var got []string
		for f, err := range w.Diff(t.Context(), files+"@"+first.Ref, other, "debian-xfce") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Change+" "+f.Path)
		}
		slices.Sort(got)
		if len(got) > 20 {
			t.Fatalf("%s: %d differences, such as %q", other, len(got), got[:20])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", other, diff)
		}
	}
}
