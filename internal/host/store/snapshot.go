package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Kinds of snapshots.
const (
	KindSnapshot  = "snapshot"  // named by a user
	KindBoot      = "boot"      // an image's, of no project
	KindSuspended = "suspended" // the memory of a desktop that has no machine
)

// Snapshot is one row: what the API shows, and what only the host may know.
type Snapshot struct {
	api.Snapshot

	Sealed Sealed
	// Deleted is zero while the snapshot exists; then the row is a tombstone.
	Deleted time.Time
}

// OwnMiB is the memory that a clone holds from the start: the pages that changed
// since the template. A snapshot that is a template is mapped instead.
func (s Snapshot) OwnMiB() int64 {
	if s.Template == s.ID {
		return 0
	}
	return s.MemoryBytes >> 20
}

// Sealed is what the host knows of an instant.
type Sealed struct {
	// Desktop is the desktop as it was then; for a boot snapshot what its image
	// gives.
	Desktop   api.Desktop  `json:"desktop"`
	GuestUser string       `json:"guest_user"`
	Host      vm.HostClass `json:"host"`
	Source    Source       `json:"source"`
	// Attached is a checkpoint that the workspace's disk goes on from; zero: it was
	// never one. It may be older than the last, never newer than the instant.
	Attached Attachment `json:"attached,omitzero"`
}

// Source is what a clone goes on from.
type Source struct {
	Snapshot vm.SnapshotID `json:"snapshot"`
	// Tokens are what guestd may take in that instant, likeliest first.
	Tokens []string `json:"tokens"`
	// Greeted says that guestd had had its handshake, Drawn that the desktop was
	// drawn.
	Greeted bool `json:"greeted"`
	Drawn   bool `json:"drawn"`
	// Plain says that all pixels of the screen had one colour.
	Plain bool `json:"plain,omitzero"`
	// Keyboard and Display are the guest's then.
	Keyboard string      `json:"keyboard"`
	Display  api.Display `json:"display"`
	// Mounted says that the workspace of the instant was in use; otherwise a
	// clone gets a fresh one.
	Mounted bool `json:"mounted"`
}

// Describe is the row of an instant that was sealed just now. Its name and
// project are the caller's.
func Describe(made vm.Sealed, sealed Sealed, kind string) Snapshot {
	d := sealed.Desktop
	return Snapshot{Sealed: sealed, Snapshot: api.Snapshot{
		ID: string(made.ID), Kind: kind, Project: d.Project, Desktop: d.ID, ImageDigest: d.ImageDigest,
		Template: string(made.Template), Shape: d.Shape, Display: d.Display,
		Accelerator: string(made.Host.Accelerator), Hypervisor: made.Host.Provider + " " + made.Host.Version,
		Digest: made.Digest, MemoryBytes: made.MemoryBytes, StateBytes: made.StateBytes, DiskBytes: made.DiskBytes,
		PauseMS: float64(made.Pause.Microseconds()) / 1000, Created: made.Created, WorkspaceMiB: d.WorkspaceMiB,
		NotParked: d.NotParked,
	}}
}

const snapshotColumns = `body, sealed, deleted_ns`

// InsertSnapshot adds a snapshot, and in the same transaction what change of a
// desktop comes with it (nil: none) and an idempotency key (nil: none). ErrTaken
// when the name is in use in the project; then nothing changes.
func (s *Store) InsertSnapshot(ctx context.Context, snap Snapshot, with *Desktop, key *Key) error {
	body, err := json.Marshal(snap.Snapshot)
	if err != nil {
		return fmt.Errorf("encode snapshot %s: %w", snap.ID, err)
	}
	sealed, err := json.Marshal(snap.Sealed)
	if err != nil {
		return fmt.Errorf("encode snapshot %s: %w", snap.ID, err)
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO snapshots (id, project, name, kind, body, sealed, created_ns) VALUES (?,?,?,?,?,?,?)`,
			snap.ID, snap.Project, snap.Name, snap.Kind, body, sealed, snap.Created.UnixNano())
		if isUnique(err) {
			return fmt.Errorf("insert snapshot %s: %w", snap.Name, ErrTaken)
		}
		if err != nil {
			return fmt.Errorf("insert snapshot %s: %w", snap.ID, err)
		}
		if with != nil {
			if err := updateDesktop(ctx, tx, *with); err != nil {
				return err
			}
		}
		if key == nil {
			return nil
		}
		return putKey(ctx, tx, *key, snap.ID, snap.Created)
	})
}

// UpdateSnapshot replaces what the API shows of a snapshot.
func (s *Store) UpdateSnapshot(ctx context.Context, snap api.Snapshot) error {
	body, err := json.Marshal(snap)
	if err != nil {
		return fmt.Errorf("encode snapshot %s: %w", snap.ID, err)
	}
	if _, err := s.db.ExecContext(ctx, `UPDATE snapshots SET body = ? WHERE id = ? AND deleted_ns = 0`, body, snap.ID); err != nil {
		return fmt.Errorf("update snapshot %s: %w", snap.ID, err)
	}
	return nil
}

// BurySnapshot turns a snapshot into a tombstone, and in the same transaction
// changes a desktop with it (nil: none): its name is free, its secrets are
// forgotten.
func (s *Store) BurySnapshot(ctx context.Context, id string, with *Desktop, at time.Time) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if err := burySnapshot(ctx, tx, id, at); err != nil || with == nil {
			return err
		}
		return updateDesktop(ctx, tx, *with)
	})
}

func burySnapshot(ctx context.Context, tx *sql.Tx, id string, at time.Time) error {
	_, err := tx.ExecContext(ctx,
		`UPDATE snapshots SET deleted_ns = ?, sealed = x'7b7d' WHERE id = ? AND deleted_ns = 0`, at.UnixNano(), id)
	if err != nil {
		return fmt.Errorf("bury snapshot %s: %w", id, err)
	}
	return nil
}

// Snapshot finds a snapshot of a project by id, or by name; tombstones are not
// found. ErrNotFound when there is none. Boot snapshots are of the project "".
func (s *Store) Snapshot(ctx context.Context, project, ref string) (Snapshot, error) {
	all, err := s.snapshots(ctx, `deleted_ns = 0 AND project IN (?, '') AND (id = ? OR name = ?) ORDER BY id = ? DESC LIMIT 1`,
		project, ref, ref, ref)
	if err != nil {
		return Snapshot{}, err
	}
	if len(all) == 0 {
		return Snapshot{}, fmt.Errorf("find snapshot %q: %w", ref, ErrNotFound)
	}
	return all[0], nil
}

// Snapshots lists every snapshot that exists, newest first.
func (s *Store) Snapshots(ctx context.Context) ([]Snapshot, error) {
	return s.snapshots(ctx, `deleted_ns = 0 ORDER BY created_ns DESC, id`)
}

// BuriedSnapshot finds a tombstone by id.
func (s *Store) BuriedSnapshot(ctx context.Context, id string) (Snapshot, error) {
	all, err := s.snapshots(ctx, `deleted_ns > 0 AND id = ?`, id)
	if err != nil {
		return Snapshot{}, err
	}
	if len(all) == 0 {
		return Snapshot{}, ErrNotFound
	}
	return all[0], nil
}

func (s *Store) snapshots(ctx context.Context, where string, args ...any) ([]Snapshot, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+snapshotColumns+` FROM snapshots WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	defer rows.Close()
	var all []Snapshot
	for rows.Next() {
		var (
			snap         Snapshot
			body, sealed []byte
			deleted      int64
		)
		if err := rows.Scan(&body, &sealed, &deleted); err != nil {
			return nil, fmt.Errorf("read snapshot: %w", err)
		}
		if err := errors.Join(json.Unmarshal(body, &snap.Snapshot), json.Unmarshal(sealed, &snap.Sealed)); err != nil {
			return nil, fmt.Errorf("decode snapshot: %w", err)
		}
		if deleted > 0 {
			snap.Deleted = time.Unix(0, deleted).UTC()
		}
		all = append(all, snap)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return all, nil
}
