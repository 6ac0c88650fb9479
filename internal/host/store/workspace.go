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

// ErrMoved says that another checkpoint was published meanwhile.
var ErrMoved = errors.New("another checkpoint was published meanwhile")

// Workspace is one row. Published is empty before the first checkpoint.
type Workspace struct {
	ID, Project, Name string
	Published         string // "workspace/checkpoint"
	Created           time.Time
}

// Attachment says which checkpoint a desktop's disk was at a point.
type Attachment struct {
	Desktop   string        `json:"desktop"`
	Workspace string        `json:"workspace"` // id of the one that it publishes in; empty: none yet
	Ref       string        `json:"ref"`       // "workspace/checkpoint"
	Point     vm.SnapshotID `json:"point"`
}

// Restored is a workspace on its way to a desktop that has no machine yet.
type Restored struct {
	Path   string // of the disk
	Filled bool   // as vm.Disk has it
	Attachment
}

// Workspaces is the part of the database that is about them.
type Workspaces struct{ *Store }

const workspaceColumns = `id, project, name, published, created_ns`

// Insert adds a workspace; ErrTaken when the project has one of its name.
func (s Workspaces) Insert(ctx context.Context, w Workspace) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO workspaces (`+workspaceColumns+`) VALUES (?,?,?,?,?)`,
		w.ID, w.Project, w.Name, w.Published, w.Created.UnixNano())
	if isUnique(err) {
		err = ErrTaken
	}
	if err != nil {
		return fmt.Errorf("insert workspace %s: %w", w.Name, err)
	}
	return nil
}

// Find finds a workspace of a project by name or id.
func (s Workspaces) Find(ctx context.Context, project, ref string) (Workspace, error) {
	all, err := s.list(ctx, `project = ? AND (name = ? OR id = ?) ORDER BY name = ? DESC`, project, ref, ref, ref)
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Workspace{}, fmt.Errorf("find workspace %q: %w", ref, err)
	}
	return all[0], nil
}

// List lists those of a project by name; an empty one stands for all.
func (s Workspaces) List(ctx context.Context, project string) ([]Workspace, error) {
	return s.list(ctx, `project = ? OR ? = '' ORDER BY name`, project, project)
}

func (s Workspaces) list(ctx context.Context, where string, args ...any) ([]Workspace, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+workspaceColumns+` FROM workspaces WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	defer rows.Close()
	var all []Workspace
	for rows.Next() {
		var w Workspace
		var created int64
		if err := rows.Scan(&w.ID, &w.Project, &w.Name, &w.Published, &created); err != nil {
			return nil, fmt.Errorf("list workspaces: %w", err)
		}
		w.Created = time.Unix(0, created).UTC()
		all = append(all, w)
	}
	return all, rows.Err()
}

// Publication is a checkpoint that shall count in a workspace.
type Publication struct {
	Workspace  string // id
	Was        string // what counts until then; empty: nothing
	Checkpoint api.Checkpoint
	Attachment Attachment // of the desktop; zero: none has it
	Key        *Key       // nil: none
}

// Publish makes a checkpoint what counts in a workspace if p.Was still does, and
// with it writes down the attachment and the key; else it is ErrMoved and nothing
// changes.
func (s Workspaces) Publish(ctx context.Context, p Publication) error {
	c := p.Checkpoint
	body, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE workspaces SET published = ? WHERE id = ? AND published = ?`, c.Ref, p.Workspace, p.Was)
		if err != nil {
			return fmt.Errorf("publish checkpoint %s: %w", c.Ref, err)
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("publish checkpoint %s: %w", c.Ref, errors.Join(err, ErrMoved))
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO checkpoints (workspace, ref, body, created_ns) VALUES (?,?,?,?) ON CONFLICT DO NOTHING`,
			p.Workspace, c.Ref, body, c.Created.UnixNano())
		if err != nil {
			return fmt.Errorf("publish checkpoint %s: %w", c.Ref, err)
		}
		if p.Key != nil {
			if err := putKey(ctx, tx, *p.Key, c.Ref, c.Created); err != nil {
				return err
			}
		}
		if p.Attachment.Desktop == "" {
			return nil
		}
		return attach(ctx, tx, p.Attachment)
	})
}

// Attach remembers a desktop's attachment.
func (s Workspaces) Attach(ctx context.Context, at Attachment) error { return attach(ctx, s.db, at) }

func attach(ctx context.Context, db execer, at Attachment) error {
	_, err := db.ExecContext(ctx, `INSERT INTO attachments (desktop, workspace, ref, point) VALUES (?,?,?,?)
		ON CONFLICT (desktop) DO UPDATE SET workspace = excluded.workspace, ref = excluded.ref, point = excluded.point`,
		at.Desktop, at.Workspace, at.Ref, string(at.Point))
	if err != nil {
		return fmt.Errorf("attach desktop %s: %w", at.Desktop, err)
	}
	return nil
}

func detach(ctx context.Context, db execer, desktop string) error {
	if _, err := db.ExecContext(ctx, `DELETE FROM attachments WHERE desktop = ?`, desktop); err != nil {
		return fmt.Errorf("detach desktop %s: %w", desktop, err)
	}
	return nil
}

// PutBack writes down a desktop that was put back to an instant: what its disk
// goes on from changes with it, and the memory that it slept in (empty: none) is
// buried.
func (s Workspaces) PutBack(ctx context.Context, d Desktop, at Attachment, asleep string, now time.Time) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if asleep != "" {
			if err := burySnapshot(ctx, tx, asleep, now); err != nil {
				return err
			}
		}
		if err := updateDesktop(ctx, tx, d); err != nil {
			return err
		}
		if at.Ref == "" {
			return detach(ctx, tx, d.ID)
		}
		if at.Desktop != d.ID { // another one's
			at.Desktop, at.Workspace = d.ID, ""
		}
		return attach(ctx, tx, at)
	})
}

// Attached finds a desktop's attachment; ErrNotFound when it has none.
func (s Workspaces) Attached(ctx context.Context, desktop string) (Attachment, error) {
	at := Attachment{Desktop: desktop}
	err := s.db.QueryRowContext(ctx, `SELECT workspace, ref, point FROM attachments WHERE desktop = ?`, desktop).
		Scan(&at.Workspace, &at.Ref, &at.Point)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return at, fmt.Errorf("find attachment of %s: %w", desktop, err)
	}
	return at, nil
}

// Checkpoints lists what was published in a workspace, newest first; an empty id
// stands for all workspaces.
func (s Workspaces) Checkpoints(ctx context.Context, workspace string) ([]api.Checkpoint, error) {
	return s.checkpoints(ctx, `workspace = ? OR ? = ''`, workspace, workspace)
}

// Checkpoint finds what was published in any workspace of a project; ErrNotFound
// when it is not kept any more.
func (s Workspaces) Checkpoint(ctx context.Context, project, ref string) (api.Checkpoint, error) {
	all, err := s.checkpoints(ctx, `ref = ? AND workspace IN (SELECT id FROM workspaces WHERE project = ?)`, ref, project)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("find checkpoint %s: %w", ref, ErrNotFound)
	}
	if err != nil {
		return api.Checkpoint{}, err
	}
	return all[0], nil
}

func (s Workspaces) checkpoints(ctx context.Context, where string, args ...any) ([]api.Checkpoint, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT body FROM checkpoints WHERE `+where+` ORDER BY created_ns DESC, rowid DESC`, args...)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	defer rows.Close()
	all := []api.Checkpoint{}
	for rows.Next() {
		var body []byte
		var c api.Checkpoint
		if err := rows.Scan(&body); err != nil {
			return nil, fmt.Errorf("list checkpoints: %w", err)
		}
		if err := json.Unmarshal(body, &c); err != nil {
			return nil, fmt.Errorf("decode checkpoint: %w", err)
		}
		all = append(all, c)
	}
	return all, rows.Err()
}

// Forget drops the rows of a checkpoint that is not in the store any
// more, unless it counts somewhere.
func (s Workspaces) Forget(ctx context.Context, ref string) error {
	_, err := s.db.ExecContext(ctx,
		`DELETE FROM checkpoints WHERE ref = ? AND NOT EXISTS (SELECT 1 FROM workspaces WHERE published = ?)`, ref, ref)
	if err != nil {
		return fmt.Errorf("forget checkpoint %s: %w", ref, err)
	}
	return nil
}
