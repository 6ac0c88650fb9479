package exec

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Start runs spec. An id that is known already names the exec that was started
// under it, which is returned as it is; with another command it is CodeExists.
// Starts of different ids do not wait for each other.
func (t *Table) Start(spec guest.ExecSpec) (*Exec, error) { return t.start(spec, false) }

func (t *Table) start(spec guest.ExecSpec, sealed bool) (*Exec, error) {
	if err := validate(&spec); err != nil {
		return nil, err
	}
	mine, old, err := t.claim(spec)
	if old != nil || err != nil {
		return old, err
	}
	e, err := t.launch(spec, sealed)
	t.mu.Lock()
	delete(t.starting, spec.ID)
	close(mine)
	closed := t.closed
	if err == nil {
		t.execs[spec.ID] = e
	}
	t.mu.Unlock()
	if err != nil {
		t.wg.Done()
		return nil, err
	}
	go func() {
		defer t.wg.Done()
		e.run(t.over)
		t.groups.give(e.leave())
	}()
	if closed { // Close has looked already
		e.abort()
		return nil, errClosed()
	}
	return e, nil
}

// claim gives the caller the right to start an exec, to be handed back by closing
// mine, or finds the one that is there. Whoever asks for an id that is just
// being started waits for the outcome.
func (t *Table) claim(spec guest.ExecSpec) (mine chan struct{}, old *Exec, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(spec.ID)
	if t.closed {
		return nil, nil, errClosed()
	}
	if old := t.execs[spec.ID]; old != nil {
		if !slices.Equal(old.spec.Argv, spec.Argv) || old.spec.Shell != spec.Shell {
			return nil, nil, &guest.Error{Code: guest.CodeExists, Message: fmt.Sprintf("exec %s exists with another command", spec.ID)}
		}
		return nil, old, nil
	}
	if t.evictLocked() >= t.cfg.MaxRunning {
		return nil, nil, &guest.Error{Code: guest.CodeBusy, Message: fmt.Sprintf("%d execs are running already", t.cfg.MaxRunning)}
	}
	mine = make(chan struct{})
	t.starting[spec.ID] = mine
	t.wg.Add(1) // until the exec has ended
	return mine, nil, nil
}

// settleLocked waits while id is being started; it gives mu up meanwhile.
func (t *Table) settleLocked(id guest.ExecID) {
	for t.starting[id] != nil {
		started := t.starting[id]
		t.mu.Unlock()
		<-started
		t.mu.Lock()
	}
}

func errClosed() error {
	return &guest.Error{Code: guest.CodeGone, Message: "guestd is shutting down"}
}

func (t *Table) launch(spec guest.ExecSpec, sealed bool) (*Exec, error) {
	def := t.cfg.Defaults()
	name := cmp.Or(spec.User, def.User)
	u, err := account.Lookup(name)
	if err != nil {
		return nil, err
	}
	e := &Exec{
		spec: spec, shield: t.cfg.Shield, fixed: t.cfg.FixedAddresses, tag: strings.ToLower(rand.Text()), done: make(chan struct{}),
		out: newRing(spec), err: newRing(spec),
	}
	extra := map[string]string{tagVariable: e.tag}
	if spec.PTY {
		extra["TERM"] = "xterm-256color"
	}
	env := account.Environ(u, def.Session, extra, def.Env, spec.Env, map[string]string{tagVariable: e.tag})
	if e.group, err = t.groups.take(); err != nil {
		t.log.Warn("exec runs without a cgroup of its own", "exec", spec.ID, "err", err)
	}
	if sealed {
		err = e.spawnSealed(u, env)
	} else {
		err = e.spawn(u, env)
	}
	if err != nil {
		t.groups.give(e.group, true)
		return nil, err
	}
	e.status = guest.ExecStatus{ID: spec.ID, PID: e.process.Pid, Argv: e.command(), Started: time.Now(), Running: true}
	e.awaited = time.AfterFunc(cmp.Or(spec.DetachGrace, t.cfg.FirstClient), e.expectNobody)
	if spec.Timeout > 0 {
		e.timer = time.AfterFunc(spec.Timeout, e.expire)
	}
	return e, nil
}

func validate(spec *guest.ExecSpec) error {
	var errs []error
	if (len(spec.Argv) == 0) == (spec.Shell == "") {
		errs = append(errs, errors.New("set either argv or shell"))
	}
	if len(spec.Argv) > 0 && spec.Argv[0] == "" {
		errs = append(errs, errors.New("the program's name is empty"))
	}
	if min(spec.Timeout, spec.DetachGrace) < 0 || spec.Ring < 0 {
		errs = append(errs, errors.New("timeout, ring and grace must not be negative"))
	}
	if spec.DetachGrace > 0 && !spec.KillOnDetach {
		errs = append(errs, errors.New("a grace is for an exec that ends on detach"))
	}
	const maxID, maxRing = 128, 64 << 20
	if len(spec.ID) > maxID {
		errs = append(errs, fmt.Errorf("an id has at most %d bytes", maxID))
	}
	if spec.Ring > maxRing {
		errs = append(errs, fmt.Errorf("a ring holds at most %d bytes", maxRing))
	}
	for k := range spec.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			errs = append(errs, fmt.Errorf("environment variable %q is not a name", k))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &guest.Error{Code: guest.CodeInvalid, Message: "check exec: " + err.Error()}
	}
	spec.ID = cmp.Or(spec.ID, guest.ExecID(strings.ToLower(rand.Text()[:12])))
	spec.Ring = cmp.Or(spec.Ring, 1<<20)
	return nil
}
