package host_test

import (
	"bytes"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

func TestSnapshots(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	snap, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "login"}, "k")
	if err != nil || snap.Name != "login" || snap.Desktop != d.ID || snap.Digest == "" || snap.Kind != "snapshot" {
		t.Fatalf("made %+v, %v", snap, err)
	}
	if again, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "login"}, "k"); err != nil || again.ID != snap.ID {
		t.Errorf("the key made %+v, %v", again, err)
	}
	_, err = f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "login"}, "")
	if e := problem(t, faulted(err)); e.Code != api.CodeConflict {
		t.Errorf("a taken name answers %+v", e)
	}
	if err := f.Host.Delete(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	if e := problem(t, faulted(f.Host.Shelf.Remove(ctx, "test"))); e.Code != api.CodeConflict {
		t.Errorf("the image of a snapshot can be removed: %+v", e)
	}
	f.Stop()
	f.Start()
	clone, err := f.Host.Create(ctx, project, api.CreateDesktop{Snapshot: "login", Name: "two", Env: map[string]string{"B": "2"}}, "")
	clone = ready(t, f, clone, err)
	if clone.Origin != api.OriginSnapshot || clone.Snapshot != snap.ID || clone.Parent != "" || clone.Env["B"] != "2" {
		t.Errorf("clone is %+v", clone)
	}
	says(t, f, "two", "salve")
	got, err := f.Host.Snapshots.Get(ctx, project, "login")
	if err != nil || got.UsedBy != 1 || got.ID != snap.ID {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, req := range map[string]api.CreateDesktop{
		"another shape":     {Snapshot: "login", Shape: "large"},
		"another workspace": {Snapshot: "login", WorkspaceMiB: 64},
		"both":              {Snapshot: "login", Image: "test"},
		"neither":           {},
		"cold":              {Snapshot: "login", Cold: true},
	} {
		_, err := f.Host.Create(ctx, project, req, "")
		if e := problem(t, faulted(err)); e.Code != api.CodeInvalid {
			t.Errorf("%s answers %+v", name, e)
		}
	}
	if _, err := f.Host.Create(ctx, "other", api.CreateDesktop{Snapshot: "login"}, ""); problem(t, faulted(err)).Code != api.CodeNotFound {
		t.Errorf("another project clones it: %v", err)
	}
	if err := f.Host.Snapshots.Remove(ctx, project, "login"); err != nil {
		t.Fatal(err)
	}
	if err := f.Host.Snapshots.Remove(ctx, project, "login"); problem(t, faulted(err)).Code != api.CodeNotFound {
		t.Errorf("a second removal answers %v", err)
	}
	says(t, f, "two", "salve")
}

func TestSnapshotTravels(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	greeting(f, "one")
	if _, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "login"}, ""); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := f.Host.Snapshots.Export(ctx, project, "login", &file); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(file.Bytes())
	snap, err := f.Host.Snapshots.Import(ctx, project, "copy", &file)
	if err != nil || snap.Name != "copy" || snap.Kind != "snapshot" || snap.WorkspaceMiB == 0 {
		t.Fatalf("imported %+v, %v", snap, err)
	}
	v, err := f.Host.Create(ctx, project, api.CreateDesktop{Snapshot: "copy", Name: "two"}, "")
	ready(t, f, v, err)
	says(t, f, "two", "salve")
	before := len(f.Provider.SnapshotIDs())
	for name, b := range map[string][]byte{
		"nothing": nil, "garbage": []byte("garbage, and a lot more of it than any head has"), "a lost end": whole[:len(whole)/2], "a head": whole[:100],
	} {
		_, err := f.Host.Snapshots.Import(ctx, project, "bad", bytes.NewReader(b))
		if e := problem(t, faulted(err)); e.Code != api.CodeImageCorrupt {
			t.Errorf("%s answers %+v", name, e)
		}
	}
	_, err = f.Host.Snapshots.Import(ctx, project, "copy", bytes.NewReader(whole))
	if e := problem(t, faulted(err)); e.Code != api.CodeConflict {
		t.Errorf("a taken name answers %+v", e)
	}
	if n := len(f.Provider.SnapshotIDs()); n != before {
		t.Errorf("refused imports left %d snapshots", n-before)
	}
}

// TestSnapshotWithoutFiles: a row whose files are gone says so, and can be removed.
func TestSnapshotWithoutFiles(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	greeting(f, "one")
	snap, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "login"}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.Stop()
	for _, id := range f.Provider.SnapshotIDs() {
		if err := f.Provider.RemoveSnapshot(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	f.Start()
	list, err := f.Host.Snapshots.List(ctx, project)
	if err != nil || len(list) != 1 || list[0].ID != snap.ID || list[0].Fault == "" {
		t.Errorf("listed are %+v, %v: want the named one with its fault", list, err)
	}
	_, err = f.Host.Create(ctx, project, api.CreateDesktop{Snapshot: "login"}, "")
	if e := problem(t, faulted(err)); e.Code != api.CodeImageCorrupt || e.Hint == "" {
		t.Errorf("a clone of it answers %+v", e)
	}
	if err := f.Host.Snapshots.Remove(ctx, project, "login"); err != nil {
		t.Error(err)
	}
	if v := f.Create(api.CreateDesktop{Name: "two"}); v.Origin != api.OriginTemplate {
		t.Errorf("the boot snapshot is not made anew: origin %s, %s", v.Origin, v.OriginReason)
	}
}
