package harness

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/supervisor"
)

// Config is what harnesses of a session are run with.
type Config struct {
	Guest Guest
	// Stdout and Stderr take a worker's output, Lost what could not be had of it
	// because the link was away for too long. Nil: nobody wants it.
	Stdout, Stderr io.Writer
	Lost           func(stream string, bytes int64)
	// Input is a worker's standard input, whole.
	Input []byte
	// Left is told when a worker has ended and processes that it started live on;
	// nil: nobody asks.
	Left func()
	// Logger takes what supervisors say on standard error; it may be nil.
	Logger *slog.Logger
}

// Driver implements session.HarnessDriver. Safe for concurrent use.
type Driver struct{ cfg Config }

var _ session.HarnessDriver = (*Driver)(nil)

// New makes a driver of both lanes. It starts nothing.
func New(c Config) *Driver {
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	if c.Lost == nil {
		c.Lost = func(string, int64) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Driver{cfg: c}
}

// Lanes implements session.HarnessDriver.
func (*Driver) Lanes(context.Context, session.Scope) ([]session.Lane, error) {
	return []session.Lane{session.AMAWorker, session.Supervised}, nil
}

// Run implements session.HarnessDriver.
func (d *Driver) Run(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
	switch r.Driver.Lane {
	case session.AMAWorker:
		return d.work(ctx, r)
	case session.Supervised:
		s := supervisor.Driver{Transport: &Transport{Guest: d.cfg.Guest, Dir: r.WorkspacePath, Logger: d.cfg.Logger}, Logger: d.cfg.Logger}
		return s.Run(ctx, r)
	}
	return "", fmt.Errorf("run harness: lane %q: %w", r.Driver.Lane, session.ErrUnsupported)
}

// ExitError says that a worker ended as it should not have.
type ExitError struct {
	Command string
	Code    int    // 128+n for signal n
	Signal  string // empty when it exited
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return fmt.Sprintf("%s was ended by signal %s", e.Command, e.Signal)
	}
	return fmt.Sprintf("%s ended with exit status %d", e.Command, e.Code)
}

// work runs a worker to its end.
func (d *Driver) work(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
	x, err := start(ctx, d.cfg.Guest, r.Lease, job{Process: r.Driver.Process, input: d.cfg.Input, spec: guest.ExecSpec{Dir: r.WorkspacePath}})
	if err != nil {
		if ctx.Err() != nil {
			return session.EndingAborted, nil
		}
		return "", fmt.Errorf("run harness: %w", err)
	}
	defer x.forget(ctx)
	st, err := x.follow(ctx, &reading{out: d.cfg.Stdout, err: d.cfg.Stderr, lost: d.cfg.Lost})
	switch {
	case err == nil && st.ExitCode == 0:
		if d.cfg.Left != nil && x.leaves(ctx) {
			d.cfg.Left()
		}
		return session.EndingCompleted, nil
	case err == nil:
		return "", &ExitError{Command: r.Driver.Process.Command, Code: st.ExitCode, Signal: st.Signal}
	case ctx.Err() != nil:
		x.stop(ctx)
		return session.EndingAborted, nil
	}
	return "", fmt.Errorf("follow %s: %w", r.Driver.Process.Command, err)
}
