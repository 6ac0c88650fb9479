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
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Deadlines; those that wait for QEMU stretch with the accelerator.
const (
	diskTimeout   = 2 * time.Minute
	qmpReady      = 10 * time.Second
	removeTimeout = 30 * time.Second
)

// creation is one Create in progress.
type creation struct {
	p    *Provider
	spec vm.Spec
	lay  layout
	j    journal
	undo undo.Stack

	cgroup *os.File
	net    Network
	cmd    *exec.Cmd
	proc   *proc.Process
	mon    *qmp.Client
}

// Create implements vm.Provider.
func (p *Provider) Create(ctx context.Context, spec vm.Spec) (vm.Machine, error) {
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
	c := &creation{p: p, spec: spec, lay: p.layout(spec.ID, spec.Incarnation)}
	c.j = journal{
		Version: journalVersion, ID: spec.ID, Incarnation: spec.Incarnation, Phase: phaseCreating,
		UUID: c.lay.uuid, QEMU: caps.Version, Accelerator: caps.Accelerator, Shape: spec.Shape,
		Network: spec.Network, Linked: p.cfg.Network != nil,
		DiskMiB: spec.System.SizeMiB + spec.Workspace.SizeMiB, Created: time.Now().UTC(),
	}
	m, err := c.run(ctx)
	if err != nil {
		if undoErr := c.undo.Run(ctx, removeTimeout); undoErr != nil {
			p.cfg.Logger.Error("create left something behind; the next start removes it",
				"desktop", spec.ID, "incarnation", spec.Incarnation, "error", undoErr)
		}
		p.forget(spec.Incarnation)
		return nil, err
	}
	return m, nil
}

// run takes the stages in order. Trace hears of each one that is done.
func (c *creation) run(ctx context.Context) (*Machine, error) {
	for _, stage := range []struct {
		name string
		do   func(context.Context) error
	}{
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
		{"running", c.journalRunning},
	} {
		err := ctx.Err()
		if err == nil {
			err = stage.do(ctx)
		}
		if err != nil {
			return nil, &vm.StageError{Stage: stage.name, Err: err}
		}
		c.p.cfg.Trace("create/" + stage.name)
	}
	m := c.machine()
	if err := c.p.keep(m); err != nil {
		return nil, &vm.StageError{Stage: "running", Err: err}
	}
	c.undo.Release()
	return m, nil
}

func (c *creation) prepare(context.Context) error {
	if err := c.p.makeDirs(c.lay); err != nil {
		return err
	}
	c.undo.Push("incarnation", func(ctx context.Context) error {
		return c.p.remove(ctx, c.lay, nil, "undo/")
	})
	return nil
}

func (c *creation) writeJournal(context.Context) error { return c.j.write(c.lay) }

func (c *creation) runtime(context.Context) error { return c.p.makeRuntimeDir(c.lay) }

func (c *creation) systemDisk(ctx context.Context) error {
	return c.disk(ctx, c.spec.System, c.lay.file(systemFile))
}

func (c *creation) workspaceDisk(ctx context.Context) error {
	return c.disk(ctx, c.spec.Workspace, c.lay.file(workspaceFile))
}

func (c *creation) disk(ctx context.Context, d vm.Disk, path string) error {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	if d.Base != "" {
		abs, err := filepath.Abs(d.Base) // an overlay's own directory must not matter
		if err != nil {
			return fmt.Errorf("find base image: %w", err)
		}
		d.Base = abs
	}
	if err := c.p.tools.Create(ctx, d, path); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("protect disk: %w", err)
	}
	return c.p.giveAway(path)
}

// files makes what QEMU opens besides the disks. The guest's configuration
// holds a token: it lies in the runtime directory, a tmpfs as a rule, and only
// until QEMU has read it.
func (c *creation) files(context.Context) error {
	err := errors.Join(
		c.p.makeFile(c.lay.file(ramFile), int64(c.spec.Shape.MemoryMiB)<<20),
		c.p.makeFile(c.lay.file(SerialLogFile), 0),
	)
	if err != nil || len(c.spec.GuestConfig) == 0 {
		return err
	}
	if err := atomicfile.Write(c.lay.socket(guestConfig), c.spec.GuestConfig, 0o600); err != nil {
		return err
	}
	return c.p.giveAway(c.lay.socket(guestConfig))
}

// makeCgroup makes the machine's cgroup where the host has working ones;
// elsewhere it does nothing, and the probe says so.
func (c *creation) makeCgroup(context.Context) error {
	if !c.p.cgroups() {
		return nil
	}
	f, err := cgroup.Make(c.p.cfg.CgroupRoot, string(c.lay.inc), c.spec.Shape)
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
	cmd, pr, err := c.p.spawn(ctx, c.lay, argv.Build(c.args()), c.cgroup)
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
		Name: string(c.spec.ID), UUID: c.lay.uuid, Accelerator: c.j.Accelerator,
		TBSizeMiB: c.p.cfg.TBSizeMiB, Shape: c.spec.Shape,
		Memory: argv.Memory{Path: c.lay.file(ramFile)}, Boot: c.spec.Boot,
		System:    argv.Drive{Path: c.lay.file(systemFile), Volatile: true},
		Workspace: argv.Drive{Path: c.lay.file(workspaceFile)},
		Width:     c.spec.Width, Height: c.spec.Height,
		QMP: c.lay.socket(qmpSocket), VNC: c.lay.socket(vncSocket),
		Serial: c.lay.file(SerialLogFile), Sandbox: true,
	}
	if c.net != nil {
		m.Net = &argv.Net{Local: c.lay.socket(netLocal), Remote: c.lay.socket(netRemote), MAC: vm.GuestMAC}
	}
	if len(c.spec.GuestConfig) > 0 {
		m.Config = c.lay.socket(guestConfig)
	}
	return m
}

func (c *creation) journalProcess(context.Context) error {
	id := c.proc.Identity()
	c.j.Process, c.j.Started = &id, time.Now().UTC()
	return c.j.write(c.lay)
}

// connect waits until QEMU answers, which is after it has opened every file.
func (c *creation) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, qmpReady*time.Duration(c.j.Accelerator.TimeoutScale()))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		mon, err := qmp.Dial(ctx, c.lay.socket(qmpSocket), qmp.Config{})
		if err == nil {
			c.mon = mon
			c.undo.Push("qmp", func(context.Context) error { return mon.Close() })
			break
		}
		if !c.proc.Alive() {
			return exitError("start", c.cmd, c.lay, c.cmd.Wait())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for QEMU to answer: %w (%w)", ctx.Err(), err)
		}
	}
	var vnc struct{ Enabled bool }
	if err := c.mon.Execute(ctx, "query-vnc", nil, &vnc); err != nil {
		return err
	}
	if !vnc.Enabled {
		return errors.New("QEMU serves no display")
	}
	if err := os.Remove(c.lay.socket(guestConfig)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove guest config: %w", err)
	}
	return nil
}

func (c *creation) journalRunning(context.Context) error {
	c.j.Phase = phaseRunning
	return c.j.write(c.lay)
}

func (c *creation) machine() *Machine {
	m := newMachine(c.p, c.lay, c.j, c.proc)
	m.cmd, m.net, m.mon = c.cmd, c.net, c.mon
	return m
}

// openNetwork makes the host's end and lets QEMU's user write to it. A socket
// that a dead daemon left is taken away first.
func (p *Provider) openNetwork(ctx context.Context, l layout, mode vm.NetworkMode) (Network, error) {
	remote := l.socket(netRemote)
	if err := os.Remove(remote); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old network socket: %w", err)
	}
	n, err := p.cfg.Network(ctx, NetworkSpec{
		ID: l.id, Mode: mode, Local: l.socket(netLocal), Remote: remote,
		Logger: p.cfg.Logger.With("desktop", l.id, "incarnation", l.inc),
	})
	if err != nil {
		return nil, fmt.Errorf("open network: %w", err)
	}
	if err := p.giveAway(remote); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}
