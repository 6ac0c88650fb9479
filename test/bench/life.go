package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/test/harness"
)

// lives measures what makes and keeps desktops: creation, forks, rest, travel.
// Against each stands the same machine under plain QEMU, in the same run.
type lives struct {
	daemon *harness.Daemon
	plain  *plain // nil where no part needs it
	out    io.Writer
	rounds func(int) int // see options
}

// usable returns when an exec has answered and a screenshot has come.
func usable(ctx context.Context, d *client.Desktop) error {
	if err := answering(ctx, d); err != nil {
		return err
	}
	_, err := d.Screenshot(ctx)
	return err
}

// answering returns when an exec has answered.
func answering(ctx context.Context, d *client.Desktop) error {
	res, err := d.Exec(ctx, "true")
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("true: exit %d", res.ExitCode)
	}
	return err
}

// startLives makes the boot snapshot that clones come from, and the peer where it
// is measured.
func startLives(ctx context.Context, o options, out io.Writer) (_ *lives, err error) {
	d, err := harness.New(ctx, o.bin, o.data)
	if err != nil {
		return nil, err
	}
	l := &lives{daemon: d, out: out, rounds: o.rounds}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := d.Start(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	first, err := l.create(ctx, api.CreateDesktop{})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "first desktop of an image, boot and sealing of the snapshot included: %.1f s\n", time.Since(begin).Seconds())
	if err := first.Delete(ctx); err != nil {
		return nil, err
	}
	info, err := d.Client.Info(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "accelerator %s (%s)\n", info.Accelerator, info.AcceleratorReason)
	if o.any("create", "fork") { // else it would only take memory from what is counted
		l.plain, err = bootPlain(ctx, o.data, vm.Accelerator(info.Accelerator))
	}
	return l, err
}

func (l *lives) close() {
	if l.plain != nil {
		l.plain.close()
	}
	l.daemon.Stop()
	l.daemon.Remove()
}

// create makes a desktop that can be used.
func (l *lives) create(ctx context.Context, spec api.CreateDesktop) (*client.Desktop, error) {
	spec.Image = "debian-xfce"
	d, err := l.daemon.Client.Desktops().Create(ctx, spec, client.Until(api.StageDrawn), client.Within(harness.BootTimeout))
	if err != nil {
		return nil, err
	}
	return d, usable(ctx, d)
}

// maker is a contender that creates desktops and deletes each.
func (l *lives) maker(name string, origin api.Origin, before func(context.Context, int) error) contender {
	var made *client.Desktop
	return contender{
		name: name, before: before,
		do: func(ctx context.Context) (err error) {
			made, err = l.create(ctx, api.CreateDesktop{Cold: origin == api.OriginCold})
			return err
		},
		after: func(ctx context.Context) error {
			info, err := made.Get(ctx)
			if err == nil && info.Origin != origin {
				err = fmt.Errorf("a desktop came as %s, not as %s: %s: %w", info.Origin, origin, info.OriginReason, errOther)
			}
			return errors.Join(err, made.Delete(ctx))
		},
	}
}

// creation compares a clone of the boot snapshot with loadvm, request to usable.
func (l *lives) creation(ctx context.Context) error {
	if err := l.plain.save(ctx); err != nil {
		return err
	}
	loadvm := contender{
		name:   "plain: process with -loadvm",
		before: func(ctx context.Context, _ int) error { return l.plain.quit(ctx) },
		do:     l.plain.load,
	}
	if err := race(ctx, l.out, "create a desktop, request to exec and screenshot, no pool", l.rounds(20),
		l.maker("clone", api.OriginTemplate, nil), loadvm); err != nil {
		return err
	}
	if err := race(ctx, l.out, "create a desktop, cold", l.rounds(2), l.maker("boot", api.OriginCold, nil)); err != nil {
		return err
	}
	l.daemon.Stop()
	l.daemon.Args = append(l.daemon.Args, "--pool-warm", "4")
	if err := l.daemon.Start(ctx); err != nil {
		return err
	}
	// The pool learns from what was asked for, and fills when nothing is asked.
	stocked := func(ctx context.Context, n int) error {
		if n == 0 {
			d, err := l.create(ctx, api.CreateDesktop{})
			if err != nil {
				return err
			}
			if err := d.Delete(ctx); err != nil {
				return err
			}
		}
		return sleep.For(ctx, 5*time.Second)
	}
	err := race(ctx, l.out, "create a desktop, from the warmed pool", l.rounds(20), l.maker("claim", api.OriginPool, stocked), loadvm)
	l.daemon.Stop()
	l.daemon.Args = nil
	return errors.Join(err, l.daemon.Start(ctx))
}

// errEnded says that nothing was measured.
var errEnded = errors.New("the program that holds memory has ended")

// dirty keeps a program in a guest that holds so much memory of its own.
func dirty(mib int) []string {
	return []string{"python3", "-c", fmt.Sprintf("import mmap,os,time\nm=mmap.mmap(-1,%[1]d<<20)\nr=os.urandom(1<<20)\nfor i in range(%[1]d): m[i<<20:(i+1)<<20]=r\nprint('held',flush=True)\ntime.sleep(1e6)", mib)}
}

// forks compares a live fork with a full migration to a file and back, after so
// many MiB were changed since the template.
func (l *lives) forks(ctx context.Context) error {
	parent, err := l.create(ctx, api.CreateDesktop{})
	if err != nil {
		return err
	}
	defer parent.Delete(context.WithoutCancel(ctx)) //nolint:errcheck // the daemon's directories go anyway
	for _, mib := range []int{16, 64, 256, 1024} {
		if err := l.forkAt(ctx, parent, mib); err != nil {
			return fmt.Errorf("%d MiB changed: %w", mib, err)
		}
	}
	return nil
}

func (l *lives) forkAt(ctx context.Context, parent *client.Desktop, mib int) error {
	rounds := l.rounds(7)
	id := fmt.Sprintf("held-%d", mib)
	if err := hold(ctx, parent, id, mib); err != nil {
		return err
	}
	if err := l.plain.hold(ctx, id, mib); err != nil {
		return err
	}
	info, err := parent.Get(ctx)
	if err != nil {
		return err
	}
	var ours, theirs, child, arrived series
	for n := range rounds + 1 {
		pauses, took, err := l.forkOnce(ctx, parent)
		if err != nil {
			return err
		}
		stood, total, err := l.plain.forkOnce(ctx)
		if err != nil {
			return fmt.Errorf("plain: %w", err)
		}
		if n > 0 { // the first round warms up
			ours, child = append(ours, pauses), append(child, took)
			theirs, arrived = append(theirs, stood), append(arrived, total)
		}
	}
	fmt.Fprintf(l.out, "live fork with %d MiB more changed (%d MiB private in all)\n", mib, info.MemoryPrivate>>20)
	line(l.out, "fork: pause of the parent", ours, ours, false)
	line(l.out, "plain: pause, migrate to a file", theirs, ours, true)
	line(l.out, "fork: child usable", child, child, false)
	line(l.out, "plain: migrate and back, usable", arrived, child, true)
	return errors.Join(parent.Execs().Forget(ctx, id), l.plain.guest.Exec.Remove(ctx, guest.ExecID(id)))
}

// hold starts a program that holds memory, and returns when it does.
func hold(ctx context.Context, d *client.Desktop, id string, mib int) error {
	if _, err := d.Execs().Start(ctx, api.Exec{ID: id, Argv: dirty(mib)}); err != nil {
		return err
	}
	for {
		st, err := d.Execs().Get(ctx, id)
		if err != nil {
			return fmt.Errorf("hold memory: %w", err)
		}
		if !st.Running {
			return fmt.Errorf("%w: %+v", errEnded, st)
		}
		if st.Out > 0 {
			return nil
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// forkOnce makes one child, and returns the parent's pause, as the daemon counts
// it, and the time from the request until the child is usable.
func (l *lives) forkOnce(ctx context.Context, parent *client.Desktop) (stood, took time.Duration, err error) {
	begin := time.Now()
	children, err := parent.Fork(ctx, api.Fork{}, client.Until(api.StageDrawn))
	if err != nil {
		return 0, 0, err
	}
	child := children[0]
	if err := usable(ctx, child); err != nil {
		return 0, 0, err
	}
	took = time.Since(begin)
	stood, err = l.pauseFor(ctx, parent, child.Ref())
	return stood, took, errors.Join(err, child.Delete(ctx))
}

// pauseFor is how long a parent stood still for a child, from its events.
func (l *lives) pauseFor(ctx context.Context, parent *client.Desktop, child string) (time.Duration, error) {
	for e, err := range l.daemon.Client.Events(ctx, client.EventOptions{Desktop: parent.Ref(), After: 1}) {
		if err != nil {
			return 0, err
		}
		ids, _ := e.Data["children"].([]any)
		ms, ok := e.Data["pause_ms"].(float64)
		if ok && slices.Contains(ids, any(child)) {
			if slow, is := e.Data["slow"]; is {
				return 0, fmt.Errorf("the fork took the slow way: %v", slow)
			}
			return time.Duration(ms * float64(time.Millisecond)), nil
		}
	}
	return 0, ctx.Err()
}

// rests measures pause, suspension and the ways back.
func (l *lives) rests(ctx context.Context) error {
	d, err := l.create(ctx, api.CreateDesktop{})
	if err != nil {
		return err
	}
	defer d.Delete(context.WithoutCancel(ctx)) //nolint:errcheck // the daemon's directories go anyway
	verb := func(fn func(context.Context) (api.Desktop, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := fn(ctx); return err }
	}
	back := func(ctx context.Context) error {
		if _, err := d.Resume(ctx); err != nil {
			return err
		}
		return usable(ctx, d)
	}
	return race(ctx, l.out, "rest and back", l.rounds(10),
		contender{name: "pause", do: verb(d.Pause)},
		contender{name: "out of a pause, to exec", do: func(ctx context.Context) error {
			if _, err := d.Resume(ctx); err != nil {
				return err
			}
			_, err := d.Exec(ctx, "true")
			return err
		}},
		contender{name: "suspend", do: verb(d.Suspend)},
		contender{name: "resume, to exec and screenshot", do: back},
	)
}

// travels measures a snapshot's way out and in again.
func (l *lives) travels(ctx context.Context) error {
	d, err := l.create(ctx, api.CreateDesktop{})
	if err != nil {
		return err
	}
	defer d.Delete(context.WithoutCancel(ctx)) //nolint:errcheck // the daemon's directories go anyway
	n, file := 0, filepath.Join(l.daemon.Data, "export")
	snaps := l.daemon.Client.Snapshots()
	err = race(ctx, l.out, "snapshot of an idle desktop", l.rounds(3),
		contender{name: "snapshot", do: func(ctx context.Context) error {
			n++
			_, err := d.Snapshot(ctx, fmt.Sprintf("bench-%d", n))
			return err
		}},
		contender{name: "export", do: func(ctx context.Context) error {
			var stream bytes.Buffer
			if err := snaps.Export(ctx, fmt.Sprintf("bench-%d", n), &stream); err != nil {
				return err
			}
			return os.WriteFile(file, stream.Bytes(), 0o600)
		}},
		contender{
			name: "import",
			do: func(ctx context.Context) error {
				f, err := os.Open(file)
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = snaps.Import(ctx, fmt.Sprintf("back-%d", n), f)
				return err
			},
			after: func(ctx context.Context) error {
				return errors.Join(snaps.Remove(ctx, fmt.Sprintf("back-%d", n)), snaps.Remove(ctx, fmt.Sprintf("bench-%d", n)))
			},
		},
	)
	if fi, serr := os.Stat(file); serr == nil {
		fmt.Fprintf(l.out, "  the exported stream has %d MiB\n", fi.Size()>>20)
	}
	return err
}
