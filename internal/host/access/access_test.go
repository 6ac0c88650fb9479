package access_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/access"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

func desk(t *testing.T) *access.Desk {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return access.New(dir, db, once.New(db, time.Now), time.Now)
}

func made(t *testing.T, d *access.Desk, name string) api.Token {
	t.Helper()
	tok, err := d.Create(t.Context(), "default", api.CreateToken{Name: name}, "")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestRevokeEndsCalls: those under the token, and no others.
func TestRevokeEndsCalls(t *testing.T) {
	d := desk(t)
	var told []string
	d.OnRevoke(func(id string) { told = append(told, id) })
	bad, good := made(t, d, "bad"), made(t, d, "good")
	enter := func(secret string) (context.Context, func()) {
		p, ctx, leave, err := d.Enter(t.Context(), secret)
		if err != nil || p.TokenID == "" {
			t.Fatal(p, err)
		}
		return ctx, leave
	}
	first, leaveFirst := enter(bad.Secret)
	second, leaveSecond := enter(bad.Secret)
	other, leaveOther := enter(good.Secret)
	defer leaveOther()
	leaveFirst()
	if err := d.Delete(t.Context(), bad.ID); err != nil {
		t.Fatal(err)
	}
	if c := context.Cause(first); !errors.Is(c, context.Canceled) {
		t.Errorf("a call that had ended: %v", c)
	}
	if c := context.Cause(second); !errors.Is(c, &api.Error{Code: api.CodeUnauthorized}) {
		t.Errorf("a call in progress: %v", c)
	}
	leaveSecond()
	if other.Err() != nil {
		t.Errorf("a call under another token: %v", other.Err())
	}
	if _, _, _, err := d.Enter(t.Context(), bad.Secret); !errors.Is(err, &api.Error{Code: api.CodeUnauthorized}) {
		t.Errorf("afterwards: %v", err)
	}
	if len(told) != 1 || told[0] != bad.ID {
		t.Errorf("told of %q", told)
	}
	if err := d.Delete(t.Context(), bad.ID); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) || len(told) != 1 {
		t.Errorf("again: %v, told of %q", err, told)
	}
}

// TestRevokeRaces: whatever the order, no call of a revoked token goes on.
func TestRevokeRaces(t *testing.T) {
	d := desk(t)
	for range 30 {
		tok := made(t, d, "t")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				_, ctx, leave, err := d.Enter(t.Context(), tok.Secret)
				if err != nil {
					return // it came too late
				}
				defer leave()
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
					t.Error("a call outlived its token")
				}
			})
		}
		if err := d.Delete(t.Context(), tok.ID); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}
