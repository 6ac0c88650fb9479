package exec

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Config of a Table. Its zero value runs programs as the present user.
type Config struct {
	Logger *slog.Logger // nil: silent
	// Defaults gives the user and the environment of execs that name none.
	Defaults func() Defaults
	// Cgroup is a cgroup v2 directory in which each exec gets a child of its
	// own; empty: processes are found by their session and environment.
	Cgroup string
	// Shield is lowered around starts; nil: there is none.
	Shield *account.Shield
	// FirstClient is how long a program that has filled its ring waits for
	// somebody to attach before its oldest output makes room; between the start
	// and the first attach nothing is lost. Default 10 s.
	FirstClient time.Duration
	// MaxRunning bounds programs that run at once. Default 2048.
	MaxRunning int
	// KeepEnded, KeepFor and KeepBytes bound what is remembered of ended
	// execs. Defaults 256, 10 min and 64 MiB of output.
	KeepEnded int
	KeepFor   time.Duration
	KeepBytes int64
}

// Defaults are what an exec starts from.
type Defaults struct {
	User    string
	Env     map[string]string
	Session account.Session
}

// Table holds the execs of a guest.
type Table struct {
	cfg Config
	log *slog.Logger

	mu     sync.Mutex
	execs  map[guest.ExecID]*Exec
	stale  []*cgroup // of ended execs whose background processes live
	closed bool
	wg     sync.WaitGroup
}

// NewTable makes an empty table.
func NewTable(cfg Config) *Table {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Defaults == nil {
		cfg.Defaults = func() Defaults { return Defaults{} }
	}
	cfg.FirstClient = cmp.Or(cfg.FirstClient, 10*time.Second)
	cfg.MaxRunning = cmp.Or(cfg.MaxRunning, 2048)
	cfg.KeepEnded = cmp.Or(cfg.KeepEnded, 256)
	cfg.KeepFor = cmp.Or(cfg.KeepFor, 10*time.Minute)
	cfg.KeepBytes = cmp.Or(cfg.KeepBytes, 64<<20)
	return &Table{cfg: cfg, log: cfg.Logger, execs: map[guest.ExecID]*Exec{}}
}

// Start runs spec. An id that is known already names the exec that was started
// under it, which is returned as it is; with another command it is CodeExists.
func (t *Table) Start(spec guest.ExecSpec) (*Exec, error) {
	if err := validate(&spec); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, &guest.Error{Code: guest.CodeGone, Message: "guestd is shutting down"}
	}
	if old := t.execs[spec.ID]; old != nil {
		if !slices.Equal(old.spec.Argv, spec.Argv) || old.spec.Shell != spec.Shell {
			return nil, &guest.Error{Code: guest.CodeExists, Message: fmt.Sprintf("exec %s exists with another command", spec.ID)}
		}
		return old, nil
	}
	if t.evictLocked() >= t.cfg.MaxRunning {
		return nil, &guest.Error{Code: guest.CodeBusy, Message: fmt.Sprintf("%d execs are running already", t.cfg.MaxRunning)}
	}
	t.sweepLocked()
	e, err := t.launch(spec)
	if err != nil {
		return nil, err
	}
	t.execs[spec.ID] = e
	t.wg.Go(func() {
		e.run()
		t.retire(e.group)
	})
	return e, nil
}

// retire removes a control group, now or, while background processes live in
// it, at one of the next starts.
func (t *Table) retire(g *cgroup) {
	if g.remove() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = append(t.stale, g)
}

// sweepLocked tries a few of the groups that could not be removed before.
func (t *Table) sweepLocked() {
	const few = 8
	for range min(few, len(t.stale)) {
		g := t.stale[0]
		t.stale = t.stale[1:]
		if !g.remove() {
			t.stale = append(t.stale, g)
		}
	}
}

func (t *Table) launch(spec guest.ExecSpec) (*Exec, error) {
	def := t.cfg.Defaults()
	name := cmp.Or(spec.User, def.User)
	u, err := account.Lookup(name)
	if err != nil {
		return nil, err
	}
	e := &Exec{
		spec: spec, shield: t.cfg.Shield, tag: strings.ToLower(rand.Text()), done: make(chan struct{}),
		out: newRing(spec.Ring), err: newRing(spec.Ring),
	}
	extra := map[string]string{tagVariable: e.tag}
	if spec.PTY {
		extra["TERM"] = "xterm-256color"
	}
	env := account.Environ(u, def.Session, extra, def.Env, spec.Env, map[string]string{tagVariable: e.tag})
	group, err := newCgroup(t.cfg.Cgroup, e.tag)
	if err != nil {
		t.log.Warn("exec runs without a cgroup of its own", "exec", spec.ID, "err", err)
	}
	e.group = group
	if err := e.spawn(u, env); err != nil {
		_ = e.group.remove() // nothing runs in it
		return nil, err
	}
	argv := spec.Argv
	if spec.Shell != "" {
		argv = shell(spec.Shell)
	}
	e.status = guest.ExecStatus{ID: spec.ID, PID: e.cmd.Process.Pid, Argv: argv, Started: time.Now(), Running: true}
	e.awaited = time.AfterFunc(t.cfg.FirstClient, e.expectNobody)
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
	if spec.Timeout < 0 || spec.Ring < 0 {
		errs = append(errs, errors.New("timeout and ring must not be negative"))
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
	if spec.ID == "" {
		spec.ID = guest.ExecID(strings.ToLower(rand.Text()[:12]))
	}
	if spec.Ring == 0 {
		spec.Ring = 1 << 20
	}
	return nil
}

// Get finds an exec.
func (t *Table) Get(id guest.ExecID) (*Exec, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.execs[id]; e != nil {
		return e, nil
	}
	return nil, &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("exec %q is not known to this guest", id)}
}

// List returns all execs, oldest first. Long command lines are cut, so that
// the list fits into one message; Status has them in full.
func (t *Table) List() []guest.ExecStatus {
	t.mu.Lock()
	t.evictLocked()
	all := make([]*Exec, 0, len(t.execs))
	for _, e := range t.execs {
		all = append(all, e)
	}
	t.mu.Unlock()
	list := make([]guest.ExecStatus, 0, len(all))
	for _, e := range all {
		st := e.Status()
		st.Argv = cut(st.Argv)
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b guest.ExecStatus) int { return a.Started.Compare(b.Started) })
	return list
}

func cut(argv []string) []string {
	left := 512
	var short []string
	for _, a := range argv {
		if len(a) > left {
			return append(short, strings.ToValidUTF8(a[:left], "")+"…")
		}
		short = append(short, a)
		left -= len(a)
	}
	return short
}

// Remove kills an exec if it runs, waits for its end and forgets it.
func (t *Table) Remove(ctx context.Context, id guest.ExecID) error {
	e, err := t.Get(id)
	if err != nil {
		return err
	}
	e.end()
	e.out.abandon()
	e.err.abandon()
	if _, err := e.Wait(ctx); err != nil {
		return fmt.Errorf("remove exec %s: %w", id, err)
	}
	t.mu.Lock()
	if t.execs[id] == e {
		delete(t.execs, id)
	}
	t.mu.Unlock()
	return nil
}

// evictLocked forgets ended execs beyond the bounds, oldest end first, and
// returns how many are running.
func (t *Table) evictLocked() int {
	var ended []*Exec
	running, bytes := 0, int64(0)
	for _, e := range t.execs {
		if e.ended().IsZero() {
			running++
			continue
		}
		ended = append(ended, e)
		bytes += e.kept()
	}
	slices.SortFunc(ended, func(a, b *Exec) int { return a.ended().Compare(b.ended()) })
	for i, e := range ended {
		if len(ended)-i <= t.cfg.KeepEnded && bytes <= t.cfg.KeepBytes && time.Since(e.ended()) <= t.cfg.KeepFor {
			break
		}
		bytes -= e.kept()
		delete(t.execs, e.spec.ID)
	}
	return running
}

func (e *Exec) ended() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status.Ended
}

// Close kills all execs and waits for their ends. Programs that were started
// in the background by execs which have ended lose their output.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	all := make([]*Exec, 0, len(t.execs))
	for _, e := range t.execs {
		all = append(all, e)
	}
	t.mu.Unlock()
	for _, e := range all {
		e.Kill()
		e.out.abandon()
		e.err.abandon()
		for _, p := range e.pumps {
			p.from.Close()
		}
	}
	t.wg.Wait()
}
