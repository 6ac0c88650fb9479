// Package program runs programs in guests.
package program

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Runner runs programs in guests. Safe for concurrent use.
type Runner struct {
	// Guest returns the live parts of a desktop whose guestd has answered.
	Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)
	// Find finds a desktop by id or name.
	Find    func(project, ref string) (*desk.Desktop, error)
	Keys    *once.Keys
	Store   *store.Store
	Metrics *metric.Set
	Now     func() time.Time
}

// Run runs a program and waits for its end. When ctx ends first the program is
// killed, unless it has an id or a key, by which it can be found again.
func (p *Runner) Run(ctx context.Context, project, ref string, req api.Exec, key string) (api.ExecResult, error) {
	l, spec, err := p.prepare(ctx, call{project, ref, key}, req)
	if err != nil {
		return api.ExecResult{}, err
	}
	if req.ID == "" && key == "" {
		spec.ID, spec.KillOnDetach = guest.ExecID(token.NewID('x')), true
		if d, err := p.Find(project, ref); err == nil {
			d.ExecStarted(nil, guest.ExecStatus{ID: spec.ID})
		}
	}
	var stdin io.Reader
	if len(req.Input) > 0 {
		spec.Stdin, stdin = true, bytes.NewReader(req.Input)
	} else {
		spec.Stdin = false
	}
	p.Metrics.Exec("run")
	ran, err := l.Execs.Run(ctx, spec, stdin)
	if err != nil {
		return api.ExecResult{}, err
	}
	return api.ExecResult{
		ExecStatus: Status(ran.Status), Stdout: text(ran.Stdout), Stderr: text(ran.Stderr), Truncated: ran.Truncated,
	}, nil
}

// Start starts a program. A repeated id or key starts nothing twice.
func (p *Runner) Start(ctx context.Context, project, ref string, req api.Exec, key string) (api.ExecStatus, error) {
	if len(req.Input) > 0 {
		return api.ExecStatus{}, api.Errorf(api.CodeInvalid, "input is for one-shot calls; attach and write it")
	}
	l, spec, err := p.prepare(ctx, call{project, ref, key}, req)
	if err != nil {
		return api.ExecStatus{}, err
	}
	st, err := l.Execs.Start(ctx, spec)
	if errors.Is(err, &guest.Error{Code: guest.CodeExists}) && key != "" {
		st, err = l.Execs.Status(ctx, spec.ID)
	}
	if err != nil {
		return api.ExecStatus{}, err
	}
	p.Metrics.Exec("start")
	if d, err := p.Find(project, ref); err == nil {
		d.ExecStarted(l, st)
	}
	return Status(st), nil
}

// call is who calls for which desktop.
type call struct {
	project, ref string
	key          string // idempotency key; may be empty
}

// prepare checks a request and gives it an id that follows from its key.
func (p *Runner) prepare(ctx context.Context, c call, req api.Exec) (l *live.Desktop, spec guest.ExecSpec, err error) {
	if (len(req.Argv) > 0) == (req.Shell != "") {
		return nil, spec, api.Errorf(api.CodeInvalid, "want either argv or shell")
	}
	if l, err = p.Guest(ctx, c.project, c.ref); err != nil {
		return nil, spec, err
	}
	d, err := p.Find(c.project, c.ref)
	if err != nil {
		return nil, spec, err
	}
	id, err := p.identify(ctx, d, c, req)
	return l, guest.ExecSpec{
		ID: id, Argv: req.Argv, Shell: req.Shell, Dir: req.Dir, Env: req.Env, User: req.User,
		PTY: req.PTY, Cols: req.Cols, Rows: req.Rows, Stdin: req.Stdin,
		Timeout: time.Duration(req.TimeoutMS) * time.Millisecond, KillOnDetach: req.KillOnDetach,
	}, err
}

// identify is the id of an exec: as asked for, as its key has it, or none.
func (p *Runner) identify(ctx context.Context, d *desk.Desktop, c call, req api.Exec) (guest.ExecID, error) {
	k, err := once.Key(c.project, c.key, "exec "+d.ID, req)
	if err != nil || k == nil {
		return guest.ExecID(req.ID), err
	}
	made := req.ID
	if made == "" {
		sum := sha256.Sum256(append([]byte(k.Key+"\n"), k.Hash...))
		made = "k" + hex.EncodeToString(sum[:])[:15]
	}
	got, err := p.Keys.Do(ctx, k, func() (string, error) {
		return made, p.Store.PutKey(ctx, *k, made, p.Now())
	})
	return guest.ExecID(got), err
}

// Status is a guest's exec in the words of the API.
func Status(st guest.ExecStatus) api.ExecStatus {
	return api.ExecStatus{
		ID: string(st.ID), PID: st.PID, Argv: st.Argv, Started: st.Started, Ended: st.Ended,
		Running: st.Running, ExitCode: st.ExitCode, Signal: st.Signal, TimedOut: st.TimedOut,
		Out: st.Out, Err: st.Err, In: st.In,
	}
}

// text is never nil, so that JSON says "" rather than null.
func text(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
