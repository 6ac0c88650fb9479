// Package provision installs packages into the machines of sessions before their
// harness begins.
package provision

import (
	"context"
	"maps"

	"github.com/deskfork/deskfork/internal/host/sessions/harness"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/packages"
	"github.com/deskfork/deskfork/pkg/vm"
)

// step is what a run does once everything is installed.
const step = "run harness"

// Config is what to install, and by what. All members but System are required.
type Config struct {
	Installer *packages.Installer
	List      packages.List
	Guest     harness.Guest
	// Desktop describes a desktop.
	Desktop func(ctx context.Context, project, ref string) (api.Desktop, error)
	// Progress is told each step.
	Progress func(step string)
	System   System
}

// System says how a machine is changed. The zero value is what guests are like.
type System struct {
	// User may change it [root].
	User string
	// Dir has its marker [packages.DefaultMachineDir].
	Dir string
	// Env is what installers are told besides, such as the address of a mirror.
	Env map[string]string
}

// Driver is a session.HarnessDriver that installs packages first.
type Driver struct {
	session.HarnessDriver

	cfg Config
}

// New makes a driver over another. It starts nothing.
func New(c Config, d session.HarnessDriver) *Driver {
	if c.System.User == "" {
		c.System.User = "root"
	}
	return &Driver{HarnessDriver: d, cfg: c}
}

// Run implements session.HarnessDriver.
func (d *Driver) Run(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
	project, id, err := sandbox.Desktop(r.Lease)
	if err != nil {
		return "", err
	}
	v, err := d.cfg.Desktop(ctx, project, id)
	if err != nil {
		return "", err
	}
	err = d.cfg.Installer.Install(ctx, &machine{cfg: d.cfg, lease: r.Lease}, packages.Request{
		Machine: r.Lease.RuntimeID, Image: v.ImageDigest, List: d.cfg.List, Workspace: r.WorkspacePath, MachineDir: d.cfg.System.Dir,
		Scale: vm.Accelerator(v.Accelerator).TimeoutScale(), Progress: d.cfg.Progress,
	})
	if err == nil {
		d.cfg.Progress(step)
		return d.HarnessDriver.Run(ctx, r)
	}
	if ctx.Err() != nil {
		return session.EndingAborted, nil //nolint:nilerr // to be ended is no fault
	}
	return "", err
}

// machine implements packages.Exec.
type machine struct {
	cfg   Config
	lease session.Lease
}

// Exec implements packages.Exec.
func (m *machine) Exec(ctx context.Context, c packages.Command) (packages.Result, error) {
	p := session.Process{Command: c.Argv[0], Args: c.Argv[1:], Cwd: "/"}
	env := maps.Clone(m.cfg.System.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	var stdout, stderr tail
	e := harness.Exec{Guest: m.cfg.Guest, Process: p, Env: env, Timeout: c.Timeout, Stdout: &stdout, Stderr: &stderr}
	if c.System {
		e.User = m.cfg.System.User
	}
	st, err := e.Run(ctx, m.lease)
	return packages.Result{ExitCode: st.ExitCode, TimedOut: st.TimedOut, Stdout: stdout.text, Stderr: stderr.text}, err
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - packages.TailBytes; over > packages.TailBytes {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}
