package vmtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
)

func porter(t *testing.T, p vm.Provider) vm.Porter {
	t.Helper()
	e, ok := p.(vm.Porter)
	if !ok {
		t.Fatal("the provider does not export snapshots")
	}
	return e
}

func exportAndImport(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s, e := snapshotter(t, p), porter(t, p)
	seal(t, s, make1(t, p, h, 1), "s1", true)
	// A snapshot of a clone stands on another one, which goes along.
	seal(t, s, clone1(t, s, h, "s1", 2), "s2", true)
	var file bytes.Buffer
	if err := e.Export(t.Context(), "s2", &file); err != nil {
		t.Fatalf("Export: %v", err)
	}
	whole := slices.Clone(file.Bytes())
	other := h.New(t)
	s, e = snapshotter(t, other), porter(t, other)
	got, err := e.Import(t.Context(), "s7", h.Spec(t).System, &file)
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	t.Cleanup(func() { _ = s.RemoveSnapshot(context.Background(), "s7") }) // as all of it
	if got.ID != "s7" || !got.Kept || got.Digest == "" {
		t.Errorf("imported is %+v", got)
	}
	clone1(t, s, h, "s7", 3)
	broken := slices.Clone(whole)
	broken[len(broken)/2] ^= 0xff
	for name, b := range map[string][]byte{"a changed byte": broken, "a lost end": whole[:len(whole)/2]} {
		if _, err := e.Import(t.Context(), "s8", h.Spec(t).System, bytes.NewReader(b)); !errors.Is(err, vm.ErrCorrupt) {
			t.Errorf("Import with %s = %v, want ErrCorrupt", name, err)
		}
	}
	if ids := listed(t, s); slices.Contains(ids, "s8") {
		t.Errorf("a refused import is listed: %v", ids)
	}
}

func importOfGarbage(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	e := porter(t, p)
	for _, text := range []string{"", "garbage", string(make([]byte, 4096))} {
		if _, err := e.Import(t.Context(), "s1", h.Spec(t).System, bytes.NewReader([]byte(text))); !errors.Is(err, vm.ErrCorrupt) {
			t.Errorf("Import of %d bytes of garbage = %v, want ErrCorrupt", len(text), err)
		}
	}
}

func sealEnded(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1"}); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Snapshot of a machine that has ended = %v, want ErrGone", err)
	}
	if ids := listed(t, s); len(ids) != 0 {
		t.Errorf("it left snapshots %v", ids)
	}
}
