package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Checkpoints implements session.RuntimeCheckpoints: snapshots of desktops whose
// harness has ended. They lie on this host and never leave it; elsewhere there is none
// of that id, and the run begins from the workspace.
type Checkpoints struct {
	Sandbox *Sandbox
	// Left says that processes of the harness live on, with its secrets in their
	// memory. Nil: none do.
	Left func() bool
}

var _ session.RuntimeCheckpoints = (*Checkpoints)(nil)

// prefix is what the names of a session's snapshots begin with.
func prefix(s session.Scope) string { return "rc-" + digest(s.Key())[:32] + "-" }

// Create implements session.RuntimeCheckpoints.
func (c *Checkpoints) Create(ctx context.Context, want session.RuntimeSeal) (session.RuntimeCheckpoint, error) {
	none := session.RuntimeCheckpoint{}
	if want.Kind != session.CheckpointProcess {
		return none, fmt.Errorf("runtime checkpoint of kind %q: %w", want.Kind, session.ErrUnsupported)
	}
	if c.Left != nil && c.Left() {
		return none, errors.New("processes of the command live on, and what they know of its secrets would be kept: end them before it ends")
	}
	s := c.Sandbox
	v, err := s.named(ctx, want.Lease)
	if err != nil {
		return none, err
	}
	if v == nil {
		return none, fmt.Errorf("desktop of incarnation %s: %w", want.Lease.RuntimeID, session.ErrSandboxLost)
	}
	name := prefix(want.Tenure.Scope) + strconv.FormatInt(want.Tenure.Generation, 10)
	snap, err := s.cfg.Host.Snapshots.Create(ctx, v.Project, v.ID, api.CreateSnapshot{Name: name}, "")
	if err != nil {
		return none, fmt.Errorf("seal desktop %s: %w", v.ID, err)
	}
	return session.RuntimeCheckpoint{
		Provider: Provider, CheckpointID: snap.ID, Kind: want.Kind, SourceRuntimeID: want.Lease.RuntimeID,
		SessionID: want.Tenure.Scope.Session, WorkGeneration: want.Tenure.Generation, WorkspaceRevision: want.WorkspaceRevision,
		HarnessVersion: want.HarnessVersion, RuntimeIdentity: want.RuntimeIdentity,
	}, nil
}

// Restore implements session.RuntimeCheckpoints.
func (c *Checkpoints) Restore(ctx context.Context, a session.Allocation, from session.RuntimeCheckpoint) (session.Lease, error) {
	if from.Provider != Provider {
		return session.Lease{}, fmt.Errorf("runtime checkpoint %s: %w: %q, not %s", from.CheckpointID, session.ErrForeign, from.Provider, Provider)
	}
	return c.Sandbox.allocate(ctx, a, func(ctx context.Context, name string, a session.Allocation) (api.Desktop, error) {
		return c.revive(ctx, name, a, from)
	})
}

// revive begins a desktop from a snapshot, if it is what the run asks for.
func (c *Checkpoints) revive(ctx context.Context, name string, a session.Allocation, from session.RuntimeCheckpoint) (api.Desktop, error) {
	s := c.Sandbox
	snap, err := s.cfg.Host.Snapshots.Get(ctx, s.cfg.Project, from.CheckpointID)
	if err != nil {
		return api.Desktop{}, err
	}
	if !strings.HasPrefix(snap.Name, prefix(a.Tenure.Scope)) {
		return api.Desktop{}, fmt.Errorf("snapshot %s is not this session's: %w", snap.ID, session.ErrForeign)
	}
	want := s.cfg.Machine
	img, err := s.cfg.Host.Shelf.Get(ctx, want.Image)
	if err != nil {
		return api.Desktop{}, err
	}
	if snap.ImageDigest != img.Digest {
		return api.Desktop{}, fmt.Errorf("snapshot %s was made of the image %s, and %s is %s now", snap.ID, snap.ImageDigest, want.Image, img.Digest)
	}
	return s.cfg.Host.Create(ctx, s.cfg.Project, api.CreateDesktop{
		Snapshot: snap.ID, Name: name, Labels: labels(want.Labels, a.Tenure.Scope),
		Shape: cmp.Or(want.Shape, host.DefaultShape), Network: cmp.Or(want.Network, string(vm.NetworkOpen)),
	}, "")
}

// Sweep removes the snapshots of a session up to a generation, but the one that its
// pointer names. The caller holds that generation, or did.
func (c *Checkpoints) Sweep(ctx context.Context, t session.Tenure, named string) error {
	s := c.Sandbox
	all, err := s.cfg.Host.Snapshots.List(ctx, s.cfg.Project)
	var faults error
	for _, snap := range all {
		text, ours := strings.CutPrefix(snap.Name, prefix(t.Scope))
		generation, bad := strconv.ParseInt(text, 10, 64)
		if !ours || bad != nil || generation > t.Generation || snap.ID == named {
			continue
		}
		if err := s.cfg.Host.Snapshots.Remove(ctx, s.cfg.Project, snap.ID); err != nil && fault.From(err).Code != api.CodeNotFound {
			faults = errors.Join(faults, err)
		}
	}
	return errors.Join(err, faults)
}
