package harness

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// Exec is a program besides the harness. All members but Env, User and Timeout
// are required.
type Exec struct {
	Guest   Guest
	Process session.Process
	// Env is no secret, other than that of Process.
	Env map[string]string
	// User runs it [the desktop's].
	User string
	// Timeout ends it in the guest, whatever becomes of the host [none].
	Timeout        time.Duration
	Stdout, Stderr io.Writer
}

// Run runs it to its end, over broken links. When ctx ends it is killed.
func (e Exec) Run(ctx context.Context, l session.Lease) (guest.ExecStatus, error) {
	x, err := start(ctx, e.Guest, l, job{Process: e.Process, spec: guest.ExecSpec{User: e.User, Env: e.Env, Timeout: e.Timeout}})
	if err != nil {
		return guest.ExecStatus{}, err
	}
	defer x.forget(ctx)
	st, err := x.follow(ctx, &reading{out: e.Stdout, err: e.Stderr, lost: func(string, int64) {}})
	if err != nil {
		return st, fmt.Errorf("follow %s: %w", e.Process.Command, err)
	}
	return st, nil
}
