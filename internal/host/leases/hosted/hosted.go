// Package hosted makes the machines of leases desktops of this host, each in the
// project of whoever leases it.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// Provider is whose leases these are.
const Provider = sandbox.Provider

// Config says what desktops are leased from.
type Config struct {
	Host *host.Host
	// Suspends says that the host can suspend desktops.
	Suspends bool
	// Outputs is a directory for deliverables that each machine has, its user's own;
	// empty: none is made.
	Outputs string
}

// Machines gives the desktops of a project for machines. What was asked for is checked
// before anything is made.
func (c Config) Machines(ctx context.Context, project string, want leases.Spec) (leases.Machines, error) {
	if want.Image != "" {
		img, err := c.Host.Shelf.Get(ctx, want.Image)
		if err != nil {
			return nil, err
		}
		if want.Digest != "" && img.Digest != want.Digest {
			return nil, api.Errorf(api.CodePrecondition, "image %s is %s, not %s as was asked for", want.Image, img.Digest, want.Digest)
		}
	}
	own := sandbox.New(sandbox.Config{
		Host: c.Host, Project: project, Machine: api.CreateDesktop{Image: want.Image, Shape: want.Shape}, Digest: want.Digest,
		Suspends: c.Suspends, Seals: c.Suspends,
	})
	return &machines{c: c, project: project, Sandbox: own, seals: &sandbox.Checkpoints{Sandbox: own, Family: family}}, nil
}

// Snapshots of leases are a family of their own, which runs do not sweep. Of a session
// most are kept: what the platform names is among them, unless so many generations
// have sealed and not published.
const (
	family = "rl"
	most   = 3
)

// machines are a project's.
type machines struct {
	*sandbox.Sandbox

	c       Config
	project string
	seals   *sandbox.Checkpoints
}

var _ leases.Sealer = (*machines)(nil)

// Acquire implements session.Sandbox.
func (m *machines) Acquire(ctx context.Context, a session.Allocation) (session.Lease, error) {
	l, err := m.Sandbox.Acquire(ctx, a)
	return m.ready(ctx, a, l, err)
}

// Restore implements session.RuntimeCheckpoints.
func (m *machines) Restore(ctx context.Context, a session.Allocation, from session.RuntimeCheckpoint) (session.Lease, error) {
	l, err := m.seals.Restore(ctx, a, from)
	if l, err = m.ready(ctx, a, l, err); err == nil {
		_ = m.seals.Keep(ctx, a.Tenure.Scope, from.WorkGeneration, most) // what stays goes with the next one
	}
	return l, err
}

// Create implements session.RuntimeCheckpoints. A generation has one: repeated, it is
// the same.
func (m *machines) Create(ctx context.Context, want session.RuntimeSeal) (session.RuntimeCheckpoint, error) {
	if !m.c.Suspends {
		return session.RuntimeCheckpoint{}, fmt.Errorf("runtime checkpoint: %w", session.ErrUnsupported)
	}
	id, err := m.seals.Sealed(ctx, want.Tenure)
	if err != nil {
		return session.RuntimeCheckpoint{}, err
	}
	if id != "" {
		return session.RuntimeCheckpoint{
			Provider: Provider, CheckpointID: id, Kind: want.Kind, SourceRuntimeID: want.Lease.RuntimeID, SessionID: want.Tenure.Scope.Session,
			WorkGeneration: want.Tenure.Generation, WorkspaceRevision: want.WorkspaceRevision,
			HarnessVersion: want.HarnessVersion, RuntimeIdentity: want.RuntimeIdentity,
		}, nil
	}
	made, err := m.seals.Create(ctx, want)
	if err == nil {
		_ = m.seals.Keep(ctx, want.Tenure.Scope, 0, most) // what stays goes with the next one
	}
	return made, err
}

// Forget implements leases.Sealer.
func (m *machines) Forget(ctx context.Context, id string) error { return m.seals.Forget(ctx, id) }

// ready gives a machine what else belongs to it, or ends it.
func (m *machines) ready(ctx context.Context, a session.Allocation, l session.Lease, err error) (session.Lease, error) {
	if err != nil || m.c.Outputs == "" {
		return l, err
	}
	if err = m.makeOutputs(ctx, l); err == nil {
		return l, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	return session.Lease{}, errors.Join(err, m.Terminate(ctx, a.Tenure, l, session.ReasonFailed))
}

// undoLimit is how long the removal of a machine that is not as it should be may take.
const undoLimit = time.Minute

// What makes the directory: as its user where that may, else for it. The first ends
// with status 3 when it may not, and says whose it shall be.
const (
	makeOwn = `mkdir -p -- "$1" 2>/dev/null && test -w "$1" || { echo "$(id -u):$(id -g)"; exit 3; }`
	makeFor = `mkdir -p -- "$1" && chown -- "$2" "$1"`
)

func (m *machines) makeOutputs(ctx context.Context, l session.Lease) error {
	in, err := m.c.Guest(ctx, m.project, l)
	if err != nil {
		return err
	}
	ran, err := in.Execs.Run(ctx, guest.ExecSpec{Argv: []string{"/bin/sh", "-c", makeOwn, "sh", m.c.Outputs}}, nil)
	if err == nil && ran.Status.ExitCode == 3 {
		owner := strings.TrimSpace(string(ran.Stdout))
		ran, err = in.Execs.Run(ctx, guest.ExecSpec{Argv: []string{"/bin/sh", "-c", makeFor, "sh", m.c.Outputs, owner}, User: "root"}, nil)
	}
	if err == nil && ran.Status.ExitCode != 0 {
		err = api.Errorf(api.CodeGuestFailed, "make %s: %s", m.c.Outputs, strings.TrimSpace(string(ran.Stderr)))
	}
	return err
}

// Guest reaches into the desktop of a lease, as long as it is the same incarnation.
func (c Config) Guest(ctx context.Context, project string, l session.Lease) (*live.Desktop, error) {
	owner, id, err := sandbox.Desktop(l)
	if err != nil {
		return nil, err
	}
	if owner != project {
		return nil, fmt.Errorf("lease of project %q: %w", owner, session.ErrForeign)
	}
	v, err := c.Host.Desktop(ctx, project, id)
	if err != nil {
		return nil, err
	}
	if v.Incarnation != l.RuntimeID {
		return nil, fmt.Errorf("desktop %s runs another incarnation now: %w", id, session.ErrSandboxLost)
	}
	return c.Host.Guest(ctx, project, id)
}
