package vmtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
)

func viewer(t *testing.T, p vm.Provider) vm.Viewer {
	t.Helper()
	v, ok := p.(vm.Viewer)
	if !ok {
		t.Fatal("the provider does not show disks")
	}
	return v
}

func view1(t *testing.T, p vm.Viewer, m vm.Machine, point, since vm.SnapshotID) *vm.View {
	t.Helper()
	v, err := p.View(t.Context(), m, vm.ViewSpec{Point: point, Since: since})
	if err != nil {
		t.Fatalf("View %s since %q: %v", point, since, err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Errorf("close view: %v", err)
		}
	})
	if (v.Base == nil) != (v.Full != "") || v.Bytes <= 0 {
		t.Errorf("view %s of %d bytes, with a base %t, full %q", point, v.Bytes, v.Base != nil, v.Full)
	}
	if v.Full != "" && (len(v.Changed) != 1 || v.Changed[0] != vm.Extent{Length: v.Bytes}) {
		t.Errorf("full view %s has changes %v", point, v.Changed)
	}
	return v
}

// content reads all of a view's disk.
func content(t *testing.T, v *vm.View) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(v.Disk, 0, v.Bytes+1))
	if err != nil || int64(len(b)) != v.Bytes {
		t.Errorf("read %d of %d bytes: %v", len(b), v.Bytes, err)
	}
	return b
}

func views(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	viewer := viewer(t, p)
	m := make1(t, p, h, 1)
	first := view1(t, viewer, m, "p1", "")
	before := content(t, first)
	if first.Full == "" {
		t.Error("the first view has a base")
	}
	sound(t, m)
	if _, err := viewer.View(t.Context(), m, vm.ViewSpec{Point: "p1"}); !errors.Is(err, vm.ErrExists) {
		t.Errorf("a second view of one name: %v, want ErrExists", err)
	}
	if _, err := viewer.View(t.Context(), m, vm.ViewSpec{Point: "../p"}); !errors.Is(err, vm.ErrInvalid) {
		t.Errorf("a view of a bad name: %v, want ErrInvalid", err)
	}
	if h.Write != nil {
		h.Write(t, m, []byte("changed"), 40_000)
	}
	second := view1(t, viewer, m, "p2", "p1")
	if second.Full != "" {
		t.Errorf("a view since a known point is full: %s", second.Full)
	}
	if other := view1(t, viewer, m, "p3", "nobody"); other.Full == "" || !bytes.Equal(content(t, other), content(t, second)) {
		t.Errorf("a view since an unknown point has a base, or other bytes")
	}
	after := content(t, second)
	if h.Write != nil && (bytes.Equal(after, before) || string(after[40_000:40_007]) != "changed") {
		t.Error("what was written is not in the view")
	}
	covered(t, second, before, after)
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content(t, first), before) || !bytes.Equal(content(t, second), after) {
		t.Error("a view is another one when its machine is gone")
	}
	if _, err := viewer.View(t.Context(), m, vm.ViewSpec{Point: "p4"}); !errors.Is(err, vm.ErrGone) {
		t.Errorf("View of a machine that is gone: %v, want ErrGone", err)
	}
}

// covered checks that a view's changes are all that differs from its base.
func covered(t *testing.T, v *vm.View, before, after []byte) {
	t.Helper()
	if v.Base == nil {
		return
	}
	base := make([]byte, len(before))
	if _, err := v.Base.ReadAt(base, 0); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(base, before) {
		t.Errorf("the base is not what the disk was: %v", err)
	}
	end := int64(0)
	for _, e := range v.Changed {
		if e.Offset < end || e.Length <= 0 || e.Offset+e.Length > v.Bytes {
			t.Errorf("changes %v of %d bytes", v.Changed, v.Bytes)
			return
		}
		copy(base[e.Offset:e.Offset+e.Length], after[e.Offset:])
		end = e.Offset + e.Length
	}
	if !bytes.Equal(base, after) {
		t.Errorf("more differs than the changes %v", v.Changed)
	}
}

func viewsOfForks(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s, viewer := snapshotter(t, p), viewer(t, p)
	m := make1(t, p, h, 1)
	before := content(t, view1(t, viewer, m, "p1", ""))
	if h.Write != nil {
		h.Write(t, m, []byte("parent"), 8192)
	}
	seal(t, s, m, "s1", false)
	c := clone1(t, s, h, "s1", 2)
	if err := m.Destroy(context.Background()); err != nil { // a child does not need its parent
		t.Fatal(err)
	}
	if h.Write != nil {
		h.Write(t, c, []byte("child"), 16_384)
	}
	v := view1(t, viewer, c, "p2", "p1")
	if v.Full != "" {
		t.Errorf("a fork does not know its parent's point: %s", v.Full)
	}
	covered(t, v, before, content(t, v))
	if v := view1(t, viewer, c, "p3", "s1"); v.Full != "" {
		t.Errorf("a snapshot is no point: %s", v.Full)
	}
	if v := view1(t, viewer, c, "p4", "p2"); v.Full != "" || len(v.Changed) != 0 {
		t.Errorf("nothing was written since, and changes are %v, full %q", v.Changed, v.Full)
	}
}
