package store_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

func snap(id, name, kind string) store.Snapshot {
	return store.Snapshot{
		Snapshot: api.Snapshot{ID: id, Name: name, Kind: kind, Project: "p", Created: time.Date(2026, 11, 30, 0, 0, 0, 1, time.UTC)},
		Sealed: store.Sealed{
			Desktop: api.Desktop{ID: "d1", Shape: "small"}, GuestUser: "agent",
			Source: store.Source{Snapshot: "s1", Tokens: []string{"secret"}, Drawn: true},
		},
	}
}

func TestSnapshots(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	ctx := t.Context()
	want := snap("s1", "one", store.KindSnapshot)
	if err := s.InsertSnapshot(ctx, want, nil, &store.Key{Project: "p", Key: "k", Hash: []byte{1}}); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"s1", "one"} {
		got, err := s.Snapshot(ctx, "p", ref)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("by %s, %v (-want +got):\n%s", ref, err, diff)
		}
	}
	if _, err := s.Snapshot(ctx, "other", "one"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another project answers %v", err)
	}
	if id, err := s.Resource(ctx, store.Key{Project: "p", Key: "k", Hash: []byte{1}}, want.Created); err != nil || id != "s1" {
		t.Errorf("the key made %q, %v", id, err)
	}
	// A desktop that goes to sleep does so together with its snapshot, or not.
	d := desk("d1", "sleeper")
	if err := s.Insert(ctx, nil, d); err != nil {
		t.Fatal(err)
	}
	d.State, d.Asleep = api.StateSuspended, "s2"
	if err := s.InsertSnapshot(ctx, snap("s2", "one", store.KindSuspended), &d, nil); !errors.Is(err, store.ErrTaken) {
		t.Errorf("a taken name answers %v", err)
	}
	if got, err := s.Desktop(ctx, "p", "d1"); err != nil || got.Asleep != "" {
		t.Errorf("half a change was kept: %+v, %v", got, err)
	}
	if err := s.InsertSnapshot(ctx, snap("s2", "", store.KindSuspended), &d, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Desktop(ctx, "p", "d1"); err != nil || got.Asleep != "s2" || got.State != api.StateSuspended {
		t.Errorf("the sleeper is %+v, %v", got, err)
	}
	d.State, d.Asleep, d.Incarnation = api.StateReady, "", "inew"
	if err := s.BurySnapshot(ctx, "s2", &d, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Desktop(ctx, "p", "d1"); err != nil || got.Asleep != "" || got.Incarnation != "inew" {
		t.Errorf("awake it is %+v, %v", got, err)
	}
	all, err := s.Snapshots(ctx)
	if err != nil || len(all) != 1 || all[0].ID != "s1" {
		t.Errorf("listed are %+v, %v", all, err)
	}
	buried, err := s.BuriedSnapshot(ctx, "s2")
	if err != nil || buried.Deleted.IsZero() || len(buried.Sealed.Source.Tokens) != 0 {
		t.Errorf("the tombstone is %+v, %v", buried, err)
	}
	if err := s.BurySnapshot(ctx, "s1", nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.InsertSnapshot(ctx, snap("s3", "one", store.KindSnapshot), nil, nil); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
}

// TestSourceOfClone: what a clone goes on from is kept until it is proven.
func TestSourceOfClone(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	d := desk("d1", "one")
	d.Source = &store.Source{Snapshot: "s1", Tokens: []string{"a", "b"}, Greeted: true}
	other := desk("d2", "two")
	if err := s.Insert(t.Context(), &store.Key{Project: "p", Key: "k", Hash: []byte{1}}, d, other); err != nil {
		t.Fatal(err)
	}
	all, err := s.Desktops(t.Context())
	if diff := cmp.Diff([]store.Desktop{d, other}, all); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if id, err := s.Resource(t.Context(), store.Key{Project: "p", Key: "k", Hash: []byte{1}}, d.Created); err != nil || id != "d1,d2" {
		t.Errorf("the key made %q, %v", id, err)
	}
	d.Source = nil
	if err := s.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Desktop(t.Context(), "p", "d1"); err != nil || got.Source != nil {
		t.Errorf("once proven it is %+v, %v", got, err)
	}
	if got, err := s.Buried(t.Context(), "p", []string{"d1", "d2"}); err != nil || len(got) != 0 {
		t.Errorf("buried are %+v, %v", got, err)
	}
}
