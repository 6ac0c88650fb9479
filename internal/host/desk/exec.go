package desk

import (
	"context"
	"maps"
	"slices"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/guest"
)

// maxFollowed bounds what is remembered of programs that have ended.
const maxFollowed = 4096

// run names a program of one run of the machine.
type run struct {
	incarnation string
	exec        guest.ExecID
}

// following is how far the events of a program have come.
type following int

const (
	unknown following = iota
	started           // and somebody waits for its end
	lost              // started, and nobody waits
	ended
)

// ExecStarted publishes that a program was started and, when the time comes, its
// end. Of a start that is told again, such as one that was retried, it publishes
// nothing more. Without l it publishes nothing, now or later: whoever starts the
// program waits for it, and is the only one to know its id.
func (d *Desktop) ExecStarted(l *live.Desktop, st guest.ExecStatus) {
	key, ok := d.follow(st.ID, unknown)
	if !ok {
		return
	}
	if l == nil {
		d.came(key, ended)
		return
	}
	d.Publish(event.TypeExecStarted, map[string]any{"exec": string(st.ID), "pid": st.PID})
	d.awaitExec(l, key)
}

// watchExec publishes the end of a program that was found running.
func (d *Desktop) watchExec(l *live.Desktop, id guest.ExecID) {
	if key, ok := d.follow(id, unknown, lost); ok {
		d.awaitExec(l, key)
	}
}

// follow makes the caller the one who publishes a program's events, when they
// have come as far as one of from.
func (d *Desktop) follow(id guest.ExecID, from ...following) (key run, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key = run{d.row.Incarnation, id}
	if !slices.Contains(from, d.followed[key]) {
		return key, false
	}
	if d.followed == nil {
		d.followed = map[run]following{}
	}
	if len(d.followed) >= maxFollowed {
		maps.DeleteFunc(d.followed, func(_ run, f following) bool { return f == ended })
	}
	d.followed[key] = started
	return key, true
}

func (d *Desktop) came(key run, so following) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed[key] = so
}

func (d *Desktop) awaitExec(l *live.Desktop, key run) {
	waiter, ok := l.Execs.(live.Waiter)
	if !ok {
		return
	}
	d.beside(func(ctx context.Context) {
		st, err := waiter.Wait(ctx, key.exec)
		came := ended
		if err != nil {
			came = lost
		}
		d.came(key, came)
		if err != nil {
			d.log.Debug("end of exec not seen", "exec", key.exec, "err", err)
			return
		}
		data := map[string]any{"exec": string(key.exec), "exit_code": st.ExitCode}
		if st.Signal != "" {
			data["signal"] = st.Signal
		}
		d.Publish(event.TypeExecEnded, data)
	})
}
