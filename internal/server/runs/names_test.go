package runs_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/cli/transfer"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestOutputsWithOddNames: what a guest may call its files goes through the store, the
// URL and back into a directory as it was.
func TestOutputsWithOddNames(t *testing.T) {
	t.Parallel()
	c, dir := door(t)
	want := map[string]string{}
	for _, name := range []string{
		" ", "...", "..a/b..", "-rf", "a?b=c&d#e", "%2e%2e%2fx", "a%00b", "~", "$HOME", "a:b", "*", "new\nline", "esc\x1b[2J", "tab\t", `"q'`,
		"ü", "u\u0308", "\u202egnp.exe", "文/件/名", strings.Repeat("ü", 127), strings.Repeat("d/", 400) + "deep", "CON", "COM1.txt", "a.", "b ",
	} {
		want[name] = "content of " + name
	}
	req := request("while test ! -e '" + dir + "/made'; do sleep 0.02; done")
	req.Outputs = true
	r, err := c.Runs().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Runs().Events(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.RunStep && e.Step == "run harness" {
			for name, text := range want {
				file := filepath.Join(dir, "outputs", name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "made"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if e.Type == api.RunEnd && e.Run.State != api.RunCompleted {
			t.Fatalf("ended %+v, %v", e.Run, e.Run.Error)
		}
	}
	list, err := c.Runs().Outputs(t.Context(), r.ID)
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d outputs, want %d: %v", len(list), len(want), err)
	}
	into := t.TempDir()
	err = transfer.Outputs(t.Context(), into, list, func(ctx context.Context, path string, w io.Writer) error {
		return c.Runs().Output(ctx, r.ID, path, w)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
