package exec

import (
	"cmp"
	"context"
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
	// FixedAddresses gives each program the same addresses at each start, and so
	// everything that it starts in turn. An emulated processor translates code
	// anew at every new address, which is most of the cost of a short program.
	// Programs that change their user, such as sudo, have random ones all the
	// same.
	FixedAddresses bool
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

	mu       sync.Mutex
	execs    map[guest.ExecID]*Exec
	starting map[guest.ExecID]chan struct{} // closed when the start has succeeded or failed
	ended    []*Exec                        // those of execs that have ended, oldest end first
	kept     int64                          // bytes of output that they held at their ends
	closed   bool
	wg       sync.WaitGroup // grows only while mu is held and closed is false

	groups groups
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
	return &Table{cfg: cfg, log: cfg.Logger, execs: map[guest.ExecID]*Exec{}, groups: groups{parent: cfg.Cgroup}, starting: map[guest.ExecID]chan struct{}{}}
}

// Get finds an exec.
func (t *Table) Get(id guest.ExecID) (*Exec, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(id)
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
	defer t.mu.Unlock()
	if i := slices.Index(t.ended, e); i >= 0 {
		t.forgetLocked(i)
	}
	return nil
}

// over notes the end of an exec; it is about to be told.
func (t *Table) over(e *Exec) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.left = e.kept()
	t.ended = append(t.ended, e)
	t.kept += e.left
}

// evictLocked forgets ended execs beyond the bounds, oldest end first, and
// returns how many are running or being started.
func (t *Table) evictLocked() int {
	for len(t.ended) > 0 {
		if len(t.ended) <= t.cfg.KeepEnded && t.kept <= t.cfg.KeepBytes && time.Since(t.ended[0].endedAt()) <= t.cfg.KeepFor {
			break
		}
		t.forgetLocked(0)
	}
	return len(t.execs) - len(t.ended) + len(t.starting)
}

func (t *Table) forgetLocked(i int) {
	e := t.ended[i]
	t.ended = slices.Delete(t.ended, i, i+1)
	t.kept -= e.left
	delete(t.execs, e.spec.ID)
}

func (e *Exec) endedAt() time.Time {
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
		e.abort()
	}
	t.wg.Wait()
	t.groups.close()
}

// abort kills an exec and drops what it, or what it has left, still says.
func (e *Exec) abort() {
	e.Kill()
	e.out.abandon()
	e.err.abandon()
	for _, p := range e.pumps {
		p.from.Close()
	}
}
