package output_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// stand is the port with a place in a machine of a session.
type stand struct {
	guest  func(context.Context, string, string) (*live.Desktop, error)
	mount  string
	port   *output.Outputs
	store  output.Store
	place  session.Binding
	lease  session.Lease
	tenure session.Tenure
}

func newStand(t *testing.T, key []byte, wrap ...func(workspace.Objects) workspace.Objects) *stand {
	t.Helper()
	f := hosttest.New(t)
	objects := f.Host.Workspaces.Blobs().Objects
	for _, fn := range wrap {
		objects = fn(objects)
	}
	s := &stand{
		guest: f.Host.Guest, mount: filepath.Join(t.TempDir(), "outputs"), tenure: sessiontest.Tenure(1),
		store: output.Store{Space: claim.Space{Objects: objects, Root: output.Root}, Key: key, Dir: t.TempDir()},
	}
	s.port = output.New(output.Config{Guest: s.guest, Store: s.store, Mount: s.mount})
	var err error
	s.lease, err = sandbox.New(sandbox.Config{Host: f.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64}}).
		Acquire(t.Context(), session.Allocation{Tenure: s.tenure, Name: session.NewIntent(s.tenure).ID})
	if err == nil {
		s.place, err = s.port.Prepare(t.Context(), session.OutputPreparation{Tenure: s.tenure, Strategy: session.OutputsCollect, Key: "p"})
	}
	if err == nil {
		err = s.port.Attach(t.Context(), s.tenure, s.place, s.lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.place.MountPath, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) collect(t *testing.T) []session.OutputEntry {
	t.Helper()
	entries, err := s.port.Collect(t.Context(), s.tenure, s.place, s.lease)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func (s *stand) finalize(ctx context.Context, entries []session.OutputEntry) (session.Candidate, error) {
	return s.port.Finalize(ctx, session.OutputSet{Tenure: s.tenure, Binding: s.place, Entries: entries, Key: "f"})
}

// TestOutputsThatChange between the two looks are refused; again is the same.
func TestOutputsThatChange(t *testing.T) {
	t.Parallel()
	s := newStand(t, []byte("key"))
	s.write(t, "a", "one")
	s.write(t, "b", "one")
	entries := s.collect(t)
	c, err := s.finalize(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.finalize(t.Context(), entries); err != nil || again.ID != c.ID {
		t.Errorf("again %+v, %v", again, err)
	}
	for name, change := range map[string]func(){
		"another content": func() { s.write(t, "a", "two") },
		"longer":          func() { s.write(t, "a", "longer") },
		"shorter":         func() { s.write(t, "a", "") },
		"gone":            func() { _ = os.Remove(filepath.Join(s.place.MountPath, "a")) },
	} {
		s.write(t, "a", "one")
		entries := s.collect(t)
		change()
		if c, err := s.finalize(t.Context(), entries); err == nil || !strings.Contains(err.Error(), "a") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	m, err := s.store.Manifest(t.Context(), c)
	if err != nil || len(m.Entries) != 2 || m.Session != s.tenure.Scope.Session || m.Generation != 1 {
		t.Fatalf("manifest %+v, %v", m, err)
	}
	set, err := output.NewReader(s.store, "r").Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := set.File(t.Context(), m.Entries[0].ContentHash)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "one" {
		t.Errorf("read %q, %v", got, err)
	}
	plain := s.store
	plain.Key = nil
	if set, err = output.NewReader(plain, "p").Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := set.File(t.Context(), m.Entries[0].ContentHash); err == nil {
		t.Error("the name of a blob follows from its content alone")
	}
	forged := c
	forged.ID = "out_other"
	if _, err := s.store.Manifest(t.Context(), forged); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another provider's: %v", err)
	}
}

// TestOutputsHaveAPlace: nothing is taken from what was not prepared and attached,
// nor after it was let go.
func TestOutputsHaveAPlace(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	if _, err := s.port.Prepare(t.Context(), session.OutputPreparation{Strategy: session.OutputsMount, Key: "m"}); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("a mount: %v", err)
	}
	b, err := s.port.Prepare(t.Context(), session.OutputPreparation{Strategy: session.OutputsWatch, Key: "w"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.port.Collect(t.Context(), s.tenure, b, s.lease); err == nil {
		t.Error("collected without a machine")
	}
	for range 2 {
		if err := s.port.Abort(t.Context(), s.tenure, s.place, session.ReasonFailed); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.port.Collect(t.Context(), s.tenure, s.place, s.lease); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("after the end: %v", err)
	}
}
