package desk

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/host/activity"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/tail"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// WorkspaceDevice is the second disk of every machine.
const WorkspaceDevice = "/dev/vdb"

// WorkspaceLabel is the label of a fresh workspace's file system.
const WorkspaceLabel = "workspace"

// Names of a provider's logs in a machine's directory (vm.Info.Dir).
const (
	SerialFile = "serial.log"
	QEMUFile   = "qemu.log"
)

// failureTail is how much of each log goes into a failure, in bytes.
const failureTail = 4 << 10

// open makes the live parts of a machine.
func (d *Desktop) open(ctx context.Context, m vm.Machine, tokens []string, keyboard string) (*reach.Parts, error) {
	return reach.Open(ctx, d.env.Open, reach.Config{
		Desktop: d.ID, Machine: m, Tokens: tokens, Version: d.env.Version, Keyboard: keyboard, Logger: d.log,
	})
}

// use lets callers use the parts of the machine from now on.
func (d *Desktop) use(p *reach.Parts) {
	p.Beside(func(ctx context.Context) { d.env.Usage.Listen(ctx, p.Machine.Info().Incarnation, p.Windows) })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parts, d.tracked = p, activity.Track(p.Desktop, d.Meter)
	d.wake()
}

// closeParts ends the link.
func (d *Desktop) closeParts() {
	d.mu.Lock()
	p := d.parts
	d.parts, d.tracked = nil, nil
	d.wake()
	d.mu.Unlock()
	p.Close()
}

// beside runs fn as long as the link, if there is one.
func (d *Desktop) beside(fn func(context.Context)) {
	d.mu.Lock()
	p := d.parts
	d.mu.Unlock()
	if p != nil {
		p.Beside(fn)
	}
}

func (d *Desktop) setMachine(ctx context.Context, m vm.Machine) {
	d.mu.Lock()
	d.machine = m
	d.mu.Unlock()
	d.Update(ctx, func(v *store.Desktop) { describe(&v.Desktop, m.Info()) })
	r := d.Row()
	d.env.Usage.Started(r, m)
	if r.Restored != nil {
		d.env.Attach(ctx, m, r.Restored.Attachment)
	}
}

// workspace is a disk of its own.
func workspace(r store.Desktop) vm.Disk {
	if r.Restored != nil {
		return vm.Disk{SizeMiB: r.WorkspaceMiB, Source: r.Restored.Path, Filled: r.Restored.Filled}
	}
	return vm.Disk{SizeMiB: r.WorkspaceMiB, Label: WorkspaceLabel}
}

func describe(v *api.Desktop, info vm.Info) {
	v.Accelerator = string(info.Accelerator)
	v.Adopted = info.Adopted
	if !info.Started.IsZero() {
		v.Started = info.Started.UTC()
	}
}

// dropMachine destroys a machine that must not be used; a failure is left to the
// provider's journal.
func (d *Desktop) dropMachine(ctx context.Context, m vm.Machine) {
	d.env.Usage.Ended(m.Info().Incarnation)
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	if err := m.Destroy(dctx); err != nil {
		d.log.Error("machine not destroyed; the next start of the host tries again", "incarnation", m.Info().Incarnation, "err", err)
	}
}

// scale is how deadlines stretch for a machine.
func scale(m vm.Machine) func() int {
	return func() int { return m.Info().Accelerator.TimeoutScale() }
}

// wish is how the guest of an incarnation shall be.
func wish(r store.Desktop) boot.Wish {
	return boot.Wish{
		Generation: r.Incarnation, Env: r.Env, Display: r.Display, Keyboard: r.Keyboard,
		User: r.GuestUser, Workspace: WorkspaceDevice, WorkspaceMiB: r.WorkspaceMiB,
	}
}

// GuestConfig is what a machine gives its guestd at boot.
func GuestConfig(token string) []byte {
	b, _ := json.Marshal(guest.Config{Token: token}) // strings alone: never fails
	return b
}

// ready tells that a desktop can be used, and takes up the programs that may run
// in it.
func (d *Desktop) ready(programs bool) {
	d.Note("")
	d.Publish(event.TypeReady, nil)
	l, _, _ := d.Parts()
	if l == nil || !programs {
		return
	}
	d.beside(func(ctx context.Context) {
		list, err := l.Execs.List(ctx)
		if err != nil {
			d.log.Debug("programs not listed", "err", err)
			return
		}
		for _, st := range list {
			if st.Running {
				d.watchExec(l, st.ID)
			}
		}
	})
}

// tails is what a machine said last, for a failure.
func tails(m vm.Machine) string {
	if m == nil || m.Info().Dir == "" {
		return ""
	}
	var b strings.Builder
	for _, f := range []struct{ title, name string }{{"hypervisor", QEMUFile}, {"serial console", SerialFile}} {
		if text := tail.Bytes(filepath.Join(m.Info().Dir, f.name), failureTail); len(text) > 0 {
			b.WriteString("--- " + f.title + " ---\n")
			b.WriteString(strings.ToValidUTF8(string(text), "?"))
			b.WriteString("\n")
		}
	}
	return b.String()
}

// WithLog is err as an API error with the tail of what a machine said, which
// will not be there any more; what err is stays to be asked for.
func WithLog(err error, m vm.Machine) error {
	e := *fault.From(err)
	if e.Log == "" {
		e.Log = tails(m)
	}
	return errors.Join(&e, err)
}

// machineError makes what a provider says without a code of its own a failure
// of the machine rather than a fault of ours. What err is stays to be asked for.
func machineError(err error) error {
	if e := fault.From(err); e.Code != api.CodeInternal {
		return err
	}
	return errors.Join(fault.Stage(api.StageMachine, api.CodeMachineFailed, "%s", err), err)
}
