package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/internal/x/undo"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/cgroup"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/spawn"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Deadlines; those that wait for QEMU stretch with the accelerator.
const (
	diskTimeout   = 2 * time.Minute
	qmpReady      = 10 * time.Second
	removeTimeout = 30 * time.Second
)

// creation is one Create or Clone in progress.
type creation struct {
	p    *Provider
	spec vm.Spec
	from *source // nil: a cold boot
	lay  incarnation.Home
	j    incarnation.Journal
	undo undo.Stack

	cgroup *os.File
	net    Network
	cmd    *exec.Cmd
	proc   *proc.Process
	mon    *qmp.Client
}

// stage is one step of a creation.
type stage struct {
	name string
	do   func(context.Context) error
}

// Create implements vm.Provider.
func (p *Provider) Create(ctx context.Context, spec vm.Spec) (vm.Machine, error) {
	c, err := p.begin(ctx, spec)
	if err != nil {
		return nil, err
	}
	err = c.run(ctx, "create/", append(c.process(), stage{"running", c.journalRunning}))
	return c.finish(ctx, err)
}

// begin makes the incarnation known. What it returns ends with finish.
func (p *Provider) begin(ctx context.Context, spec vm.Spec) (*creation, error) {
	if err := spec.Validate(); err != nil {
		return nil, &vm.StageError{Stage: "validate", Err: err}
	}
	if err := p.own(); err != nil {
		return nil, &vm.StageError{Stage: "prepare", Err: err}
	}
	caps, err := p.Capabilities(ctx)
	if err != nil {
		return nil, &vm.StageError{Stage: "probe", Err: err}
	}
	if err := p.reserve(spec.Incarnation); err != nil {
		return nil, &vm.StageError{Stage: "prepare", Err: err}
	}
	c := &creation{p: p, spec: spec, lay: p.root.Home(spec.ID, spec.Incarnation)}
	c.j = incarnation.Journal{
		Version: incarnation.Version, ID: spec.ID, Incarnation: spec.Incarnation, Phase: incarnation.Creating,
		UUID: c.lay.UUID, QEMU: caps.Version, Accelerator: caps.Accelerator, Shape: spec.Shape,
		Network: spec.Network, Linked: p.cfg.Network != nil, Width: spec.Width, Height: spec.Height,
		DiskMiB: spec.System.SizeMiB + spec.Workspace.SizeMiB, Created: time.Now().UTC(), Boot: spec.Boot,
	}
	if spec.System.Base != "" {
		path, err := filepath.Abs(spec.System.Base)
		if err != nil {
			p.forget(spec.Incarnation)
			return nil, &vm.StageError{Stage: "prepare", Err: err}
		}
		c.j.Base = store.Base{Path: path, Format: spec.System.BaseFormat}
	}
	return c, nil
}

// process are the stages up to a QEMU that answers.
func (c *creation) process() []stage {
	return []stage{
		{"prepare", c.prepare},
		{"journal", c.writeJournal},
		{"runtime", c.runtime},
		{"system-disk", c.systemDisk},
		{"workspace-disk", c.workspaceDisk},
		{"files", c.files},
		{"cgroup", c.makeCgroup},
		{"network", c.network},
		{"spawn", c.spawn},
		{"journal-process", c.journalProcess},
		{"qmp", c.connect},
	}
}

// run takes stages in order. Trace hears of each one that is done.
func (c *creation) run(ctx context.Context, trace string, stages []stage) error {
	for _, s := range stages {
		err := ctx.Err()
		if err == nil {
			err = s.do(ctx)
		}
		if err != nil {
			return &vm.StageError{Stage: s.name, Err: err}
		}
		c.p.cfg.Trace(trace + s.name)
	}
	return nil
}

// finish hands the machine out, or takes all back when err is not nil.
func (c *creation) finish(ctx context.Context, err error) (vm.Machine, error) {
	if err == nil {
		m := c.machine()
		if err = c.p.keep(m); err == nil {
			c.undo.Release()
			return m, nil
		}
		err = &vm.StageError{Stage: "running", Err: err}
	}
	c.abandon(ctx)
	return nil, err
}

func (c *creation) abandon(ctx context.Context) {
	if err := c.undo.Run(ctx, removeTimeout); err != nil {
		c.p.cfg.Logger.Error("something was left behind; the next start removes it",
			"desktop", c.spec.ID, "incarnation", c.spec.Incarnation, "error", err)
	}
	c.p.forget(c.spec.Incarnation)
}

func (c *creation) prepare(context.Context) error {
	if err := c.p.root.MakeDirs(c.lay); err != nil {
		return err
	}
	c.undo.Push("incarnation", func(ctx context.Context) error {
		return c.p.remove(ctx, c.lay, nil, "undo/")
	})
	return nil
}

func (c *creation) writeJournal(context.Context) error { return c.j.Write(c.lay) }

func (c *creation) runtime(context.Context) error { return c.p.root.MakeRuntimeDir(c.lay) }

func (c *creation) systemDisk(ctx context.Context) error {
	d := c.spec.System
	if d.Base != "" {
		d.Base = c.j.Base.Path // an overlay's own directory must not matter
	}
	if c.from != nil {
		return c.overlay(store.System, c.from.meta.SystemBytes, c.lay.File(incarnation.System))
	}
	return c.disk(ctx, d, c.lay.File(incarnation.System))
}

func (c *creation) workspaceDisk(ctx context.Context) error {
	if c.from != nil && !c.from.fresh {
		return c.overlay(store.Workspace, c.from.meta.WorkspaceBytes, c.lay.File(incarnation.Workspace))
	}
	return c.disk(ctx, c.spec.Workspace, c.lay.File(incarnation.Workspace))
}

// overlay makes a disk on top of a snapshot's.
func (c *creation) overlay(name string, size int64, path string) error {
	if err := disk.Overlay(path, c.p.store.File(c.from.meta.Own(name)), "qcow2", size); err != nil {
		return err
	}
	return c.p.root.Give(path)
}

func (c *creation) disk(ctx context.Context, d vm.Disk, path string) error {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	if err := c.p.tools.Create(ctx, d, path); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("protect disk: %w", err)
	}
	return c.p.root.Give(path)
}

// files makes what QEMU opens besides the disks. The guest's configuration
// holds a token: it lies in the runtime directory, a tmpfs as a rule, and only
// until QEMU has read it.
func (c *creation) files(context.Context) error {
	err := errors.Join(
		c.p.root.MakeFile(c.lay.File(incarnation.RAM), int64(c.spec.Shape.MemoryMiB)<<20),
		c.p.root.MakeFile(c.lay.File(incarnation.SerialLog), 0),
	)
	if err != nil || len(c.spec.GuestConfig) == 0 {
		return err
	}
	if err := atomicfile.Write(c.lay.Socket(incarnation.Config), c.spec.GuestConfig, 0o600); err != nil {
		return err
	}
	return c.p.root.Give(c.lay.Socket(incarnation.Config))
}

// makeCgroup makes the machine's cgroup where the host has working ones;
// elsewhere it does nothing, and the probe says so.
func (c *creation) makeCgroup(context.Context) error {
	if !c.p.cgroups() {
		return nil
	}
	f, err := cgroup.Make(c.p.cfg.CgroupRoot, string(c.lay.Inc), c.spec.Shape)
	c.cgroup = f
	return err
}

func (c *creation) network(ctx context.Context) error {
	if c.p.cfg.Network == nil {
		return nil
	}
	n, err := c.p.openNetwork(ctx, c.lay, c.spec.Network)
	if err != nil {
		return err
	}
	c.net = n
	c.undo.Push("network", func(context.Context) error { return n.Close() })
	return nil
}

func (c *creation) spawn(ctx context.Context) error {
	cmd, pr, err := c.p.spawner.Start(ctx, argv.Build(c.args()), c.lay.UUID, c.lay.File(incarnation.QEMULog), c.cgroup)
	if c.cgroup != nil {
		c.cgroup.Close()
	}
	if err != nil {
		return err
	}
	c.cmd, c.proc = cmd, pr
	c.undo.Push("process", func(ctx context.Context) error {
		defer pr.Close()
		if err := pr.Kill(ctx); err != nil {
			return err
		}
		_ = cmd.Wait() // its status was reported or is our own kill
		return nil
	})
	return nil
}

func (c *creation) args() argv.Machine {
	m := argv.Machine{
		Name: string(c.spec.ID), UUID: c.lay.UUID, Accelerator: c.j.Accelerator,
		TBSizeMiB: c.p.cfg.TBSizeMiB, Shape: c.spec.Shape,
		RAM: c.lay.File(incarnation.RAM), Boot: c.spec.Boot,
		System:    argv.Drive{Path: c.lay.File(incarnation.System), Volatile: true},
		Workspace: argv.Drive{Path: c.lay.File(incarnation.Workspace)},
		Width:     c.spec.Width, Height: c.spec.Height,
		QMP: c.lay.Socket(incarnation.QMP), VNC: c.lay.Socket(incarnation.VNC),
		Serial: c.lay.File(incarnation.SerialLog), Sandbox: true, Incoming: c.from != nil,
	}
	if c.net != nil {
		m.Net = &argv.Net{Local: c.lay.Socket(incarnation.NetLocal), Remote: c.lay.Socket(incarnation.NetRemote), MAC: vm.GuestMAC}
	}
	if len(c.spec.GuestConfig) > 0 {
		m.Config = c.lay.Socket(incarnation.Config)
	}
	return m
}

func (c *creation) journalProcess(context.Context) error {
	id := c.proc.Identity()
	c.j.Process, c.j.Started = &id, time.Now().UTC()
	return c.j.Write(c.lay)
}

// connect waits until QEMU answers, which is after it has opened every file.
func (c *creation) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, qmpReady*time.Duration(c.j.Accelerator.TimeoutScale()))
	defer cancel()
	mon, err := live.Dial(ctx, c.lay.Socket(incarnation.QMP), c.proc.Alive)
	if errors.Is(err, live.ErrEnded) {
		return spawn.ExitError("start", c.cmd, c.lay.File(incarnation.QEMULog), c.cmd.Wait())
	}
	if err != nil {
		return err
	}
	c.mon = mon
	c.undo.Push("qmp", func(context.Context) error { return mon.Close() })
	if err := live.Shows(ctx, c.mon); err != nil {
		return err
	}
	if err := os.Remove(c.lay.Socket(incarnation.Config)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove guest config: %w", err)
	}
	return nil
}

func (c *creation) journalRunning(context.Context) error {
	c.j.Phase, c.j.Needs = incarnation.Running, nil
	return c.j.Write(c.lay)
}

func (c *creation) machine() *Machine {
	m := newMachine(c.p, c.lay, c.j, c.proc)
	m.cmd, m.net, m.mon = c.cmd, c.net, c.mon
	return m
}

// openNetwork makes the host's end and lets QEMU's user write to it. A socket
// that a dead daemon left is taken away first.
func (p *Provider) openNetwork(ctx context.Context, l incarnation.Home, mode vm.NetworkMode) (Network, error) {
	remote := l.Socket(incarnation.NetRemote)
	if err := os.Remove(remote); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old network socket: %w", err)
	}
	n, err := p.cfg.Network(ctx, NetworkSpec{
		ID: l.ID, Mode: mode, Local: l.Socket(incarnation.NetLocal), Remote: remote,
		Logger: p.cfg.Logger.With("desktop", l.ID, "incarnation", l.Inc),
	})
	if err != nil {
		return nil, fmt.Errorf("open network: %w", err)
	}
	if err := p.root.Give(remote); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}
