// Package sandbox gives sessions desktops for machines: it implements
// session.Sandbox and session.Allocations on the host's use cases.
//
// A desktop is found by its name, which follows from the name of its intent, and a
// lease names one incarnation of it. A suspended desktop is an incarnation of its
// own. To go on from one is to fork it: it stays as it was until a publication
// names another, so that a run that fails loses nothing.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/sessions/binding"
	"github.com/deskfork/deskfork/internal/x/turns"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
)

const (
	// undoLimit is how long the removal of half an allocation may take; what is
	// left then is found by its intent.
	undoLimit = time.Minute
	// probeLimit is how long a guest may take to answer the readiness probe, before
	// scaling.
	probeLimit = 10 * time.Second
)

// Config says what machines are made of. To end and inspect them Host alone is
// needed.
type Config struct {
	Host *host.Host
	// Project owns the desktops.
	Project string
	// Machine describes them. Its name and workspace are the session's; labels are
	// added to.
	Machine api.CreateDesktop
	// Digest, when it is set, is what Machine.Image must stand for.
	Digest string
	// Node names this host among those that share the sessions' stores; empty: none
	// do. It never changes.
	Node string
	// Suspends says that the host can suspend desktops.
	Suspends bool
	// Seals says that Checkpoints are offered.
	Seals bool
	// Exports says that they leave the host.
	Exports bool
}

// Sandbox implements session.Sandbox. Safe for concurrent use.
type Sandbox struct {
	cfg Config

	busy turns.Turns // of allocations, by name
}

var (
	_ session.Sandbox     = (*Sandbox)(nil)
	_ session.Allocations = (*Sandbox)(nil)
)

// New makes a sandbox. It starts nothing.
func New(c Config) *Sandbox { return &Sandbox{cfg: c} }

// Capabilities implements session.Sandbox.
func (s *Sandbox) Capabilities(context.Context, session.Scope) (session.SandboxCapabilities, error) {
	c := session.SandboxCapabilities{SuspendResume: s.cfg.Suspends, HardTerminate: true, RuntimeCheckpoints: []session.CheckpointKind{}}
	if s.cfg.Seals {
		c.RuntimeCheckpoints = append(c.RuntimeCheckpoints, session.CheckpointProcess)
		c.PortableCheckpoints = s.cfg.Exports
	}
	return c, nil
}

// Acquire implements session.Sandbox. The desktop is drawn and the guest has
// answered the readiness probe.
func (s *Sandbox) Acquire(ctx context.Context, a session.Allocation) (session.Lease, error) {
	return s.allocate(ctx, a, s.make)
}

// allocate finds the desktop of an allocation or makes it, and undoes all when it
// cannot be used.
func (s *Sandbox) allocate(ctx context.Context, a session.Allocation, begin func(context.Context, string, session.Allocation) (api.Desktop, error)) (session.Lease, error) {
	name := Name(a.Name)
	leave, err := s.busy.Enter(ctx, name)
	if err != nil {
		return session.Lease{}, err
	}
	defer leave()
	v, err := s.cfg.Host.Desktop(ctx, s.cfg.Project, name)
	if missing(err) {
		v, err = begin(ctx, name, a)
	}
	if err != nil {
		return session.Lease{}, fmt.Errorf("allocate desktop: %w", err)
	}
	l, err := s.settle(ctx, v, a)
	if err == nil {
		return l, nil
	}
	uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if derr := s.cfg.Host.Delete(uctx, s.cfg.Project, v.ID); derr != nil && !missing(derr) {
		err = errors.Join(err, fmt.Errorf("remove desktop %s again: %w", v.ID, derr))
	}
	return session.Lease{}, fmt.Errorf("allocate desktop: %w", err)
}

// make begins a desktop, or a fork of the suspended one that is gone on from.
func (s *Sandbox) make(ctx context.Context, name string, a session.Allocation) (api.Desktop, error) {
	if a.Resume != nil {
		return s.fork(ctx, name, a)
	}
	req := s.cfg.Machine
	req.Name, req.Labels = name, labels(req.Labels, a.Tenure.Scope)
	req.Workspace = binding.Checkpoint(a.Workspace)
	if req.Workspace != "" {
		req.WorkspaceMiB = 0 // the disk keeps its size
	}
	if s.cfg.Digest != "" {
		img, err := s.cfg.Host.Shelf.Get(ctx, req.Image)
		if err != nil {
			return api.Desktop{}, err
		}
		if img.Digest != s.cfg.Digest {
			return api.Desktop{}, api.Errorf(api.CodePrecondition, "image %s is %s, not %s as was asked for", req.Image, img.Digest, s.cfg.Digest)
		}
		req.Image = img.Digest
	}
	return s.cfg.Host.Create(ctx, s.cfg.Project, req, "")
}

func (s *Sandbox) fork(ctx context.Context, name string, a session.Allocation) (api.Desktop, error) {
	was, err := s.named(ctx, *a.Resume)
	if err != nil {
		return api.Desktop{}, fmt.Errorf("go on from the retained machine: %w", err)
	}
	if was == nil || was.State != api.StateSuspended {
		return api.Desktop{}, fmt.Errorf("go on from the retained machine: %s is gone, and the workspace with it", a.Resume.RuntimeID)
	}
	all, err := s.cfg.Host.Fork(ctx, was.Project, was.ID, api.Fork{Name: name, Labels: labels(s.cfg.Machine.Labels, a.Tenure.Scope)}, "")
	if err != nil {
		return api.Desktop{}, fmt.Errorf("go on from the retained machine: %w", err)
	}
	return all[0], nil
}

// settle waits until the desktop can be used, and proves it.
func (s *Sandbox) settle(ctx context.Context, v api.Desktop, a session.Allocation) (session.Lease, error) {
	if v.Labels[LabelScope] != digest(a.Tenure.Scope.Key()) {
		return session.Lease{}, fmt.Errorf("desktop %s is not this session's: %w", v.Name, session.ErrForeign)
	}
	v, err := s.cfg.Host.Wait(ctx, s.cfg.Project, v.ID, api.StageDrawn)
	if err != nil {
		return session.Lease{}, err
	}
	if err := s.probe(ctx, v, a); err != nil {
		return session.Lease{}, fmt.Errorf("readiness probe: %w", err)
	}
	if v, err = s.cfg.Host.Desktop(ctx, s.cfg.Project, v.ID); err != nil {
		return session.Lease{}, err
	}
	if err := ctx.Err(); err != nil {
		return session.Lease{}, context.Cause(ctx)
	}
	return s.leaseOf(v), nil
}

// marker is what a guest that is ready says on a line of its own.
const marker = "__OPENMA_RUNTIME_READY__"

// look answers the marker when the program that shall run is there.
const look = `case "$1" in '') ;; */*) test -x "$1";; *) command -v "$1" >/dev/null;; esac && echo ` + marker

func (s *Sandbox) probe(ctx context.Context, v api.Desktop, a session.Allocation) error {
	l, err := s.cfg.Host.Guest(ctx, s.cfg.Project, v.ID)
	if err != nil {
		return err
	}
	p := a.Plan.Driver.Process
	spec := guest.ExecSpec{Argv: []string{"/bin/sh", "-c", look, "probe", p.Command}}
	if strings.Contains(p.Command, "/") && !strings.HasPrefix(p.Command, "/") {
		spec.Dir = a.Workspace.MountPath
		if p.Cwd != "" {
			spec.Dir = p.Cwd
		}
	}
	spec.Timeout = probeLimit * time.Duration(vm.Accelerator(v.Accelerator).TimeoutScale())
	ran, err := l.Execs.Run(ctx, spec, nil)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(ran.Stdout)) {
		if ran.Status.ExitCode == 0 && strings.TrimSpace(line) == marker {
			return nil
		}
	}
	if ran.Status.TimedOut {
		return api.Errorf(api.CodeDeadline, "the guest did not answer within %s", spec.Timeout)
	}
	return api.Errorf(api.CodePrecondition, "there is no program %q in the machine", p.Command)
}

// missing says that an error tells of a desktop that is not there.
func missing(err error) bool {
	return err != nil && fault.From(err).Code == api.CodeNotFound
}
