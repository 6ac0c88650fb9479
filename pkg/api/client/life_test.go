package client_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func TestForkIsOneKeyedCall(t *testing.T) {
	s, c := setup(t)
	d := c.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "a b"}))
	s.FailNext(&api.Error{Status: 503})
	children, err := d.Fork(t.Context(), api.Fork{Count: 2, Name: "twin"}, client.Until(api.StageDrawn))
	if err != nil || len(children) != 2 || children[1].Info.Name != "twin-2" || children[1].Info.Parent != d.Ref() {
		t.Fatalf("%+v, %v", children, err)
	}
	asked := s.Requests()
	want := "POST /v1/desktops/" + d.Ref() + "/fork?wait=drawn"
	if diff := cmp.Diff([]string{want, want}, asked); diff != "" {
		t.Error(diff)
	}
	if s.Header().Get(api.HeaderIdempotencyKey) == "" {
		t.Error("no key")
	}
}

// TestLife: the states that the verbs lead to, and which of them a broken
// gateway makes the client say again.
func TestLife(t *testing.T) {
	s, c := setup(t)
	d := c.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "one"}))
	ctx := t.Context()
	if _, err := d.Snapshot(ctx, "base"); err != nil {
		t.Fatal(err)
	}
	gateway := &api.Error{Status: 502}
	for _, tc := range []struct {
		verb   string
		do     func() (api.Desktop, error)
		state  api.DesktopState
		origin api.Origin
		twice  bool
	}{
		{"pause", func() (api.Desktop, error) { return d.Pause(ctx) }, api.StatePaused, api.OriginTemplate, true},
		{"resume", func() (api.Desktop, error) { return d.Resume(ctx) }, api.StateReady, api.OriginTemplate, true},
		{"suspend", func() (api.Desktop, error) { return d.Suspend(ctx) }, api.StateSuspended, api.OriginTemplate, true},
		{"resume", func() (api.Desktop, error) { return d.Resume(ctx) }, api.StateReady, api.OriginResume, true},
		{"restore", func() (api.Desktop, error) { return d.Restore(ctx, "base") }, api.StateReady, api.OriginRestore, false},
		{"policy", func() (api.Desktop, error) { return d.SetPolicy(ctx, api.Policy{TTLS: 60}) }, api.StateReady, api.OriginRestore, true},
	} {
		t.Run(tc.verb, func(t *testing.T) {
			s.FailNext(gateway)
			before := len(s.Requests())
			got, err := tc.do()
			if !tc.twice {
				if err == nil || len(s.Requests()) != before+1 {
					t.Fatalf("repeated: %v", err)
				}
				got, err = tc.do()
			}
			if err != nil || got.State != tc.state || got.Origin != tc.origin {
				t.Errorf("%+v, %v", got, err)
			}
			if last := s.Requests()[len(s.Requests())-1]; !strings.HasSuffix(last, "/"+tc.verb) {
				t.Errorf("asked %s", last)
			}
		})
	}
}

func TestSnapshots(t *testing.T) {
	s, c := setup(t)
	ctx := t.Context()
	d := c.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "one"}))
	if _, err := d.Files().Write(ctx, "/workspace/x", strings.NewReader("kept"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	made, err := d.Snapshot(ctx, "base")
	if err != nil || made.Name != "base" || made.Desktop != d.Ref() {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := d.Snapshot(ctx, "base"); !errors.Is(err, &api.Error{Code: api.CodeConflict}) {
		t.Errorf("a name that is taken: %v", err)
	}
	var file bytes.Buffer
	if err := c.Snapshots().Export(ctx, "base", &file); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Snapshots().Import(ctx, "copy", bytes.NewReader(file.Bytes())); err != nil || got.Name != "copy" {
		t.Fatalf("%+v, %v", got, err)
	}
	twin, err := c.Desktops().Create(ctx, api.CreateDesktop{Snapshot: "copy"})
	if err != nil || twin.Info.Origin != api.OriginSnapshot {
		t.Fatalf("%+v, %v", twin, err)
	}
	if data, err := twin.Files().Read(ctx, "/workspace/x"); err != nil || string(data) != "kept" {
		t.Errorf("in the clone: %q, %v", data, err)
	}
	list, err := c.Snapshots().List(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "copy" || list[0].UsedBy != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.Snapshots().Remove(ctx, "copy"); err != nil {
		t.Error(err)
	}
	if _, err := c.Snapshots().Get(ctx, "copy"); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("after its removal: %v", err)
	}
}

// TestExportSaysWhoseFault: a stream that breaks off is an error of the way, a
// disk that is full one of this side, and neither is taken for the whole.
func TestExportSaysWhoseFault(t *testing.T) {
	s, c := setup(t)
	ctx := t.Context()
	if _, err := c.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce"})).Snapshot(ctx, "base"); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if err := c.Snapshots().Export(ctx, "base", failing{full}); !errors.Is(err, full) || errors.Is(err, &api.Error{Code: api.CodeRefused}) {
		t.Errorf("full disk: %v", err)
	}
	s.CutExports()
	err := c.Snapshots().Export(ctx, "base", io.Discard)
	if !errors.Is(err, &api.Error{Code: api.CodeRefused}) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestTree(t *testing.T) {
	s, c := setup(t)
	ctx := t.Context()
	d := c.Desktop(s.Desktop(api.CreateDesktop{Image: "debian-xfce", Name: "one"}))
	if _, err := d.Fork(ctx, api.Fork{}); err != nil {
		t.Fatal(err)
	}
	tree, err := c.Tree(ctx)
	if err != nil || len(tree.Nodes) != 3 || tree.Nodes[2].Parent != d.Ref() || tree.Nodes[1].Parent != tree.Nodes[0].ID {
		t.Errorf("%+v, %v", tree, err)
	}
}
