package store_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestAudit: lines come back newest first, and the newest epoch is found behind lines
// that say nothing of one.
func TestAudit(t *testing.T) {
	s := store.Audits{Store: open(t, filepath.Join(t.TempDir(), "test.db"))}
	ctx := t.Context()
	if _, err := s.LastControl(ctx, "d1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a desktop without lines: %v", err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	add := func(desktop, what string, epoch uint64, held bool) {
		t.Helper()
		err := s.AddAudit(ctx, store.Audit{Project: "p", Held: held, AuditEntry: api.AuditEntry{
			Time: at, Desktop: desktop, Incarnation: "i1", What: what, Epoch: epoch, Who: "me", Kind: "person", By: "token:t", Detail: "x",
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	add("d1", "control.taken", 2, true)
	add("d1", "control.released", 3, false)
	add("d2", "control.taken", 9, true)
	add("d1", "viewer.joined", 0, false)
	last, err := s.LastControl(ctx, "d1")
	if err != nil || last.Epoch != 3 || last.Held || last.What != "control.released" || !last.Time.Equal(at) || last.By != "token:t" {
		t.Errorf("last %+v, %v", last, err)
	}
	list, err := s.AuditLog(ctx, "d1", 0, 2)
	if err != nil || len(list) != 2 || list[0].What != "viewer.joined" || list[1].Epoch != 3 {
		t.Fatalf("log %+v, %v", list, err)
	}
	if rest, err := s.AuditLog(ctx, "d1", list[1].Seq, 10); err != nil || len(rest) != 1 || rest[0].Epoch != 2 {
		t.Errorf("the rest %+v, %v", rest, err)
	}
}
