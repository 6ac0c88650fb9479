package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func desk(id, name string) store.Desktop {
	return store.Desktop{
		Desktop: api.Desktop{
			ID: id, Name: name, Project: "p", Incarnation: "i" + id, State: api.StateReady,
			Labels: map[string]string{"a": "b"}, Created: time.Date(2026, 11, 30, 0, 0, 0, 1, time.UTC),
		},
		LinkToken: "secret", GuestUser: "agent",
	}
}

func TestDesktops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name?#.db")
	s := open(t, path)
	ctx := t.Context()
	d := desk("d1", "one")
	if err := s.Insert(ctx, nil, d); err != nil {
		t.Fatal(err)
	}
	if err := s.Insert(ctx, nil, desk("d2", "one")); !errors.Is(err, store.ErrTaken) {
		t.Errorf("a taken name answers %v", err)
	}
	d.State = api.StateStopped
	if err := s.Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	all, err := s.Desktops(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]store.Desktop{d}, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	if err := s.Bury(ctx, "d1", at); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(ctx, store.Desktop{Desktop: api.Desktop{ID: "d1", State: api.StateReady, Incarnation: "id1"}}); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"d1", "one"} {
		got, err := s.Desktop(ctx, "p", ref)
		if err != nil || !got.Deleted.Equal(at) || got.LinkToken != "" || got.State != api.StateStopped {
			t.Errorf("tombstone by %s is %+v, %v", ref, got, err)
		}
	}
	if err := s.Insert(ctx, nil, desk("d3", "one")); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
	if got, err := s.Desktop(ctx, "p", "one"); err != nil || got.ID != "d3" {
		t.Errorf("the name finds %+v, %v", got, err)
	}
	if _, err := s.Desktop(ctx, "other", "one"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another project answers %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestKeys(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	ctx := t.Context()
	now := time.Now()
	k := store.Key{Project: "p", Key: "k", Hash: []byte{1}}
	if _, err := s.Resource(ctx, k, now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a new key answers %v", err)
	}
	if err := s.PutKey(ctx, k, "r", now); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Resource(ctx, k, now); err != nil || got != "r" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Resource(ctx, store.Key{Project: "p", Key: "k", Hash: []byte{2}}, now); !errors.Is(err, store.ErrKeyUsed) {
		t.Errorf("another request answers %v", err)
	}
	later := now.Add(store.KeyTTL + time.Second)
	if _, err := s.Resource(ctx, k, later); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an old key answers %v", err)
	}
	if err := s.PutKey(ctx, k, "again", later); err != nil {
		t.Errorf("an old key cannot be used again: %v", err)
	}
	// A desktop whose key is taken is not made at all.
	if err := s.Insert(ctx, &store.Key{Project: "p", Key: "k", Hash: []byte{9}}, desk("d1", "one")); err == nil {
		t.Error("a key was used twice")
	}
	if _, err := s.Desktop(ctx, "p", "d1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("half a transaction was kept: %v", err)
	}
}

func TestManyWriters(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"))
	d := desk("d1", "one")
	if err := s.Insert(t.Context(), nil, d); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := s.Update(context.Background(), d); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
