package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Checkpoints implements session.RuntimeCheckpoints: snapshots of desktops whose
// harness has ended. With a vault they are stored there, and found by other hosts;
// else they lie on this host alone, and elsewhere the run begins from the workspace.
type Checkpoints struct {
	Sandbox *Sandbox
	// Left says that processes of the harness live on, with its secrets in their
	// memory. Nil: none do.
	Left func() bool
	// Vault takes what leaves the host. Nil: nothing does.
	Vault *vault.Vault
	// Family begins the names of snapshots [rc]. That of runs is swept by what their
	// sessions have published.
	Family string
}

var _ session.RuntimeCheckpoints = (*Checkpoints)(nil)

// prefix is what the names of a session's snapshots begin with.
func (c *Checkpoints) prefix(s session.Scope) string {
	return cmp.Or(c.Family, "rc") + "-" + digest(s.Key())[:32] + "-"
}

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
	name := c.prefix(want.Tenure.Scope) + strconv.FormatInt(want.Tenure.Generation, 10)
	snap, err := s.cfg.Host.Snapshots.Create(ctx, v.Project, v.ID, api.CreateSnapshot{Name: name}, "")
	if err != nil {
		return none, fmt.Errorf("seal desktop %s: %w", v.ID, err)
	}
	ref, err := c.export(ctx, want.Tenure, snap)
	if err != nil {
		return none, errors.Join(err, c.discard(ctx, snap.ID))
	}
	return session.RuntimeCheckpoint{
		Provider: Provider, CheckpointID: ref.String(), Kind: want.Kind, SourceRuntimeID: want.Lease.RuntimeID,
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
	s, want := c.Sandbox, c.Sandbox.cfg.Machine
	img, err := s.cfg.Host.Shelf.Get(ctx, want.Image)
	if err != nil {
		return api.Desktop{}, err
	}
	snap, fetched, err := c.find(ctx, a.Tenure.Scope, from, img)
	if err != nil {
		return api.Desktop{}, explained(from, err)
	}
	if snap.ImageDigest != img.Digest {
		return api.Desktop{}, otherImage(snap.ID, snap.ImageDigest, img)
	}
	v, err := s.cfg.Host.Create(ctx, s.cfg.Project, api.CreateDesktop{
		Snapshot: snap.ID, Name: name, Labels: labels(want.Labels, a.Tenure.Scope),
		Shape: s.shape(), Network: cmp.Or(want.Network, string(vm.NetworkOpen)),
	}, "")
	if err != nil && fetched {
		err = errors.Join(err, c.discard(ctx, snap.ID))
	}
	return v, err
}

func otherImage(id, digest string, img api.Image) error {
	return fmt.Errorf("snapshot %s was made of the image %s, and %s is %s now", id, digest, img.Name, img.Digest)
}

// shape is that of the machines.
func (s *Sandbox) shape() string { return cmp.Or(s.cfg.Machine.Shape, host.DefaultShape) }
