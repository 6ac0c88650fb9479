// Package harness runs harnesses in the guests of sessions' desktops: a worker that
// owns its work, or a supervisor that obeys the host. It implements
// session.HarnessDriver and session.SupervisorTransport on guestd's programs.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/session"
)

const (
	// stopGrace is how long a program may take to end after TERM, before KILL. It
	// is less than what a run waits for a harness.
	stopGrace = 5 * time.Second
	// tidyLimit bounds each call that ends or forgets a program.
	tidyLimit = 10 * time.Second
	// ring is how many bytes of output the guest keeps while the link is away.
	ring = 4 << 20
	// again is the pause before a broken link is attached to again, and before a
	// question that is asked so often.
	again = 200 * time.Millisecond
	asks  = 10
)

// Guest finds the live parts of a desktop.
type Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)

// process is a program in a guest.
type process struct {
	execs live.Execs
	id    guest.ExecID
}

// job is a program to start.
type job struct {
	// The environment and input are known to nothing in the guest but the program, and gone
	// with it.
	session.Process

	input []byte
	// spec says the rest; its environment is no secret.
	spec guest.ExecSpec
}

// start starts a program of a session's machine.
func start(ctx context.Context, find Guest, l session.Lease, j job) (*process, error) {
	project, desktop, err := sandbox.Desktop(l)
	if err != nil {
		return nil, err
	}
	parts, err := find(ctx, project, desktop)
	if err != nil {
		return nil, err
	}
	p, spec := j.Process, j.spec
	spec.ID = guest.ExecID(token.NewID('h'))
	spec.Argv = append([]string{p.Command}, p.Args...)
	spec.Ring = ring
	if p.Cwd != "" {
		spec.Dir = p.Cwd
	}
	x := &process{execs: parts.Execs, id: spec.ID}
	if len(p.Env) == 0 && len(j.input) == 0 {
		_, err = parts.Execs.Start(ctx, spec)
	} else if sealer, ok := parts.Execs.(live.Sealer); ok {
		secrets := guest.Secrets{Env: make(map[string]string, len(p.Env)), Input: j.input, HasInput: len(j.input) > 0}
		for name, value := range p.Env {
			secrets.Env[name] = value.Reveal()
		}
		_, err = sealer.StartSealed(ctx, spec, secrets)
	} else {
		err = errors.ErrUnsupported
	}
	if err != nil {
		x.forget(ctx) // its answer may have been lost
		return nil, fmt.Errorf("start %s: %w", p.Command, err)
	}
	return x, nil
}

// forget ends the program, if it runs, and has the guest forget it, whatever has
// become of ctx.
func (x *process) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	_ = x.execs.Remove(ctx, x.id) // what is left of it dies with its machine
}

// stop asks the program to end, and then makes it.
func (x *process) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if x.execs.Signal(ctx, x.id, "TERM") == nil {
		if w, ok := x.execs.(live.Waiter); ok {
			_, _ = w.Wait(ctx, x.id) // or it is killed
		}
	}
}

// leaves says whether processes live on that an ended program has started, after the
// moment that those need which end with it. What is not known counts as yes.
func (x *process) leaves(ctx context.Context) bool {
	for range asks {
		st, err := x.execs.Status(ctx, x.id)
		if err == nil && !st.Left {
			return false
		}
		t := time.NewTimer(again)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return true
}

// reading is how far the output of a program was read.
type reading struct {
	out, err io.Writer
	// lost is told how many bytes of a stream are gone because the link was away
	// for too long.
	lost func(stream string, bytes int64)

	outAt, errAt int64
}

// follow reads the output to its end, over lost connections.
func (x *process) follow(ctx context.Context, r *reading) (guest.ExecStatus, error) {
	for {
		st, err := x.read(ctx, r)
		if err == nil || ctx.Err() != nil || !broken(err) {
			return st, err
		}
		t := time.NewTimer(again)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// broken says that the link and not the program has ended. A machine that is gone
// ends the run by its heartbeat.
func broken(err error) bool { return errors.Is(err, client.ErrLinkLost) }

// read attaches and reads as long as the link holds.
func (x *process) read(ctx context.Context, r *reading) (guest.ExecStatus, error) {
	a, err := x.execs.Attach(ctx, guest.ExecAttachParams{ID: x.id, OutFrom: r.outAt, ErrFrom: r.errAt})
	if err != nil {
		return guest.ExecStatus{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = a.Close() })
	defer stop()
	defer a.Close() //nolint:errcheck // it has been read
	began := a.Started()
	for _, s := range []struct {
		name string
		at   *int64
		from int64
	}{{"stdout", &r.outAt, began.OutFrom}, {"stderr", &r.errAt, began.ErrFrom}} {
		if missed := s.from - *s.at; missed > 0 {
			r.lost(s.name, missed)
			*s.at = s.from
		}
	}
	var outputs sync.WaitGroup
	var outErr, errErr error
	outputs.Go(func() { outErr = pipe(r.out, a.Stdout(), &r.outAt) })
	outputs.Go(func() { errErr = pipe(r.err, a.Stderr(), &r.errAt) })
	outputs.Wait()
	if err := errors.Join(outErr, errErr); err != nil {
		return guest.ExecStatus{}, err
	}
	return a.Wait(ctx)
}

// pipe copies a stream and counts.
func pipe(to io.Writer, from io.Reader, at *int64) error {
	n, err := io.Copy(struct{ io.Writer }{to}, from)
	*at += n
	return err
}
