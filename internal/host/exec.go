package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Programs runs programs in guests.
type Programs struct{ h *Host }

// maxOutput is how much of each stream a one-shot exec answers, in bytes.
const maxOutput = 16 << 20

// Run runs a program and waits for its end. When ctx ends first the program is
// killed, unless it has an id or a key, by which it can be found again.
func (p *Programs) Run(ctx context.Context, project, ref string, req api.Exec, key string) (api.ExecResult, error) {
	l, spec, _, err := p.prepare(ctx, call{project, ref, key}, req)
	if err != nil {
		return api.ExecResult{}, err
	}
	spec.KillOnDetach = spec.KillOnDetach || (req.ID == "" && key == "")
	var stdin io.Reader
	if len(req.Input) > 0 {
		spec.Stdin, stdin = true, bytes.NewReader(req.Input)
	} else {
		spec.Stdin = false
	}
	p.h.metrics.Exec("run")
	ran, err := l.Execs.Run(ctx, spec, stdin)
	if err != nil {
		return api.ExecResult{}, err
	}
	return api.ExecResult{
		ExecStatus: ExecStatus(ran.Status), Stdout: capped(ran.Stdout), Stderr: capped(ran.Stderr),
		Truncated: len(ran.Stdout) > maxOutput || len(ran.Stderr) > maxOutput,
	}, nil
}

// Start starts a program. A repeated id or key starts nothing twice.
func (p *Programs) Start(ctx context.Context, project, ref string, req api.Exec, key string) (api.ExecStatus, error) {
	if len(req.Input) > 0 {
		return api.ExecStatus{}, api.Errorf(api.CodeInvalid, "input is for one-shot calls; attach and write it")
	}
	l, spec, fresh, err := p.prepare(ctx, call{project, ref, key}, req)
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
	p.h.metrics.Exec("start")
	if d, err := p.h.find(project, ref); err == nil && fresh {
		d.publish(event.TypeExecStarted, map[string]any{"exec": string(st.ID), "pid": st.PID})
		d.watchExec(l, st.ID)
	}
	return ExecStatus(st), nil
}

// watchExec publishes the end of an exec.
func (d *desktop) watchExec(l *live.Desktop, id guest.ExecID) {
	waiter, ok := l.Execs.(live.Waiter)
	if !ok {
		return
	}
	d.beside(func(ctx context.Context) {
		st, err := waiter.Wait(ctx, id)
		if err != nil {
			d.log.Debug("end of exec not seen", "exec", id, "err", err)
			return
		}
		data := map[string]any{"exec": string(id), "exit_code": st.ExitCode}
		if st.Signal != "" {
			data["signal"] = st.Signal
		}
		d.publish(event.TypeExecEnded, data)
	})
}

// call is who calls for which desktop.
type call struct {
	project, ref string
	key          string // idempotency key; may be empty
}

// prepare checks a request and gives it an id that follows from its key. fresh is
// false when the key has been here before.
func (p *Programs) prepare(ctx context.Context, c call, req api.Exec) (l *live.Desktop, spec guest.ExecSpec, fresh bool, err error) {
	if (len(req.Argv) > 0) == (req.Shell != "") {
		return nil, spec, false, api.Errorf(api.CodeInvalid, "want either argv or shell")
	}
	if l, err = p.h.Guest(ctx, c.project, c.ref); err != nil {
		return nil, spec, false, err
	}
	d, err := p.h.find(c.project, c.ref)
	if err != nil {
		return nil, spec, false, err
	}
	id, fresh, err := p.identify(ctx, d, c, req)
	return l, guest.ExecSpec{
		ID: id, Argv: req.Argv, Shell: req.Shell, Dir: req.Dir, Env: req.Env, User: req.User,
		PTY: req.PTY, Cols: req.Cols, Rows: req.Rows, Stdin: req.Stdin,
		Timeout: time.Duration(req.TimeoutMS) * time.Millisecond, KillOnDetach: req.KillOnDetach,
	}, fresh, err
}

// identify is the id of an exec: as asked for, as its key has it, or none.
func (p *Programs) identify(ctx context.Context, d *desktop, c call, req api.Exec) (id guest.ExecID, fresh bool, err error) {
	k, err := once.Key(c.project, c.key, "exec "+d.id, req)
	if err != nil || k == nil {
		return guest.ExecID(req.ID), true, err
	}
	made := req.ID
	if made == "" {
		sum := sha256.Sum256(append([]byte(k.Key+"\n"), k.Hash...))
		made = "k" + hex.EncodeToString(sum[:])[:15]
	}
	got, err := p.h.keys.Do(ctx, k, func() (string, error) {
		fresh = true
		return made, p.h.store.PutKey(ctx, *k, made, p.h.cfg.Now())
	})
	return guest.ExecID(got), fresh, err
}

// ExecStatus is a guest's exec in the words of the API.
func ExecStatus(st guest.ExecStatus) api.ExecStatus {
	return api.ExecStatus{
		ID: string(st.ID), PID: st.PID, Argv: st.Argv, Started: st.Started, Ended: st.Ended,
		Running: st.Running, ExitCode: st.ExitCode, Signal: st.Signal, TimedOut: st.TimedOut,
		Out: st.Out, Err: st.Err,
	}
}

// capped is at most maxOutput bytes, and never nil, so that JSON says "" rather
// than null.
func capped(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b[:min(len(b), maxOutput)]
}
