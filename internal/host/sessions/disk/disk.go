// Package disk keeps /workspace of sessions over their desktops: it implements
// session.Workspaces on the chunk store of the host's workspaces.
//
// What counts is what the session's fence has published. A checkpoint is written to
// the store first and means nothing until then.
package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/sessions/binding"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// Kinds of candidates besides checkpoints.
const (
	metaKind      = "kind"
	kindRetained  = "retained"
	kindEphemeral = "ephemeral"
)

// Config is what a session's workspace is. All members but Mount are required.
type Config struct {
	Desk *workspaces.Desk
	// Guest finds the live parts of a desktop.
	Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)
	// Project and Name name the workspace; it is made at need.
	Project, Name string
	// Retains says that suspended machines are offered.
	Retains bool
	// Mount is where guests have it [session.WorkspacePath].
	Mount string
}

// Workspaces implements session.Workspaces. Safe for concurrent use.
type Workspaces struct {
	cfg Config

	mu     sync.Mutex
	drafts map[string][]session.Candidate // guarded by mu; by binding
}

var _ session.Workspaces = (*Workspaces)(nil)

// New makes the port. It starts nothing.
func New(c Config) *Workspaces {
	if c.Mount == "" {
		c.Mount = session.WorkspacePath
	}
	return &Workspaces{cfg: c, drafts: map[string][]session.Candidate{}}
}

// Strategies implements session.Workspaces.
func (w *Workspaces) Strategies(context.Context, session.Scope) ([]session.WorkspaceStrategy, error) {
	all := []session.WorkspaceStrategy{session.CheckpointRestore, session.Ephemeral}
	if w.cfg.Retains {
		all = append(all, session.RetainedRuntime)
	}
	return all, nil
}

// Materialize implements session.Workspaces. The disk itself is rebuilt when the
// desktop is made; here its manifest is found and checked.
func (w *Workspaces) Materialize(ctx context.Context, m session.Materialization) (session.Binding, error) {
	b := session.Binding{ID: m.Key, MountPath: w.cfg.Mount}
	switch {
	case m.Strategy == session.Ephemeral:
		return b, nil
	case m.Strategy != session.CheckpointRestore && m.Strategy != session.RetainedRuntime:
		return b, fmt.Errorf("workspace by %s: %w", m.Strategy, session.ErrUnsupported)
	case m.Active != nil && m.Active.Metadata[metaKind] == kindRetained:
		if m.Strategy == session.RetainedRuntime {
			return b, nil // it comes with the machine
		}
		return b, fmt.Errorf("workspace %s lies in a suspended machine: it cannot be had by %s", w.cfg.Name, m.Strategy)
	}
	active := m.Active
	if active != nil && active.Metadata[metaKind] == kindEphemeral {
		active = nil // earlier runs have kept nothing
	}
	with, err := w.cfg.Desk.Begin(ctx, w.cfg.Project, w.cfg.Name, active)
	if err != nil {
		return b, err
	}
	b.Metadata = binding.Begins(with)
	return b, nil
}

// Attach implements session.Workspaces: the desktop was made with the disk, and its
// guest must have it.
func (w *Workspaces) Attach(ctx context.Context, _ session.Tenure, b session.Binding, l session.Lease) error {
	project, id, err := sandbox.Desktop(l)
	if err != nil {
		return err
	}
	parts, err := w.cfg.Guest(ctx, project, id)
	if err != nil {
		return err
	}
	info, err := parts.Files.Stat(ctx, guest.PathParams{Path: b.MountPath})
	if err != nil {
		return fmt.Errorf("workspace in the machine: %w", err)
	}
	if info.Type != guest.TypeDir {
		return fmt.Errorf("workspace in the machine: %s is a %s", b.MountPath, info.Type)
	}
	return nil
}

// Checkpoint implements session.Workspaces.
func (w *Workspaces) Checkpoint(ctx context.Context, c session.WorkspaceCheckpoint) (session.Candidate, error) {
	project, id, err := sandbox.Desktop(c.Lease)
	if err != nil {
		return session.Candidate{}, err
	}
	switch c.Strategy {
	case session.Ephemeral:
		return session.Candidate{ID: kindEphemeral, ContentHash: hash(nil), Metadata: session.Metadata{metaKind: kindEphemeral}}, nil
	case session.RetainedRuntime:
		// Its content is the machine, which the lease names and nobody has hashed.
		text, err := json.Marshal(c.Lease)
		if err != nil {
			return session.Candidate{}, fmt.Errorf("encode lease: %w", err)
		}
		return session.Candidate{
			ID: kindRetained + "/" + c.Lease.RuntimeID, ContentHash: hash(text), Metadata: session.Metadata{metaKind: kindRetained},
		}, nil
	case session.CheckpointRestore:
	case session.DurableMount:
		return session.Candidate{}, fmt.Errorf("workspace by %s: %w", c.Strategy, session.ErrUnsupported)
	}
	made, err := w.cfg.Desk.Draft(ctx, w.cfg.Project, w.cfg.Name, id, c.Key)
	if err != nil {
		return session.Candidate{}, fmt.Errorf("checkpoint of desktop %s of project %s: %w", id, project, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drafts[c.Binding.ID] = append(w.drafts[c.Binding.ID], made)
	return made, nil
}

// Release implements session.Workspaces. What the fence names stays by that; other
// drafts are left to sweeps.
func (w *Workspaces) Release(ctx context.Context, _ session.Tenure, b session.Binding) error {
	w.mu.Lock()
	drafts := w.drafts[b.ID]
	delete(w.drafts, b.ID)
	w.mu.Unlock()
	var faults error
	for _, c := range drafts {
		faults = errors.Join(faults, w.cfg.Desk.Drop(ctx, c))
	}
	return faults
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
