package meter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/billing"
)

// Defaults.
const (
	DefaultSlice   = time.Hour
	DefaultMaxRows = 100_000
)

// Pauses after a ledger that failed, and how long a write may take: so long, and
// more for each row. The last one, at the end, has less.
const (
	flushLimit  = time.Minute
	flushPerRow = 10 * time.Millisecond
	retryMin    = 100 * time.Millisecond
	retryMax    = 30 * time.Second
	lastFlush   = 5 * time.Second
)

// Config is what a meter is made of.
type Config struct {
	// Ledger keeps rows and states. Required.
	Ledger billing.Ledger
	// Host names this host in a ledger of several. Required.
	Host string
	// Clock reads the clocks. Nil: Clock().
	Clock func() Instant
	// Slice is the longest window; see ValidSlice. Zero: DefaultSlice. Incarnations
	// that are counted already keep theirs.
	Slice time.Duration
	// MaxRows bounds the rows that wait for a ledger that fails; beyond it the
	// oldest are given up, which Stats tells. Zero: DefaultMaxRows.
	MaxRows int
	// Taken is told of each row when it arises; it must not wait. May be nil.
	Taken func(billing.Row)
	// Logger hears of what is given up. Nil: nobody does.
	Logger *slog.Logger
}

// entry is a state and how much of it is written.
type entry struct {
	state   *State
	version int64
	dirty   bool
}

// Meter counts the incarnations of one host. Safe for concurrent use.
type Meter struct {
	cfg     Config
	wake    chan struct{} // holds a token when there is something to write
	writing chan struct{} // holds a token while nobody writes

	mu      sync.Mutex
	open    map[string]*entry // guarded by mu; by incarnation
	ended   []string          // guarded by mu; marks to remove
	rows    []billing.Row     // guarded by mu; to be written
	dropped int64             // guarded by mu; rows given up, all from the front of rows
	failed  int64             // guarded by mu; writes that failed
}

// New makes a meter. It starts nothing: see Load and Run.
func New(cfg Config) (*Meter, error) {
	var errs []error
	if cfg.Ledger == nil {
		errs = append(errs, errors.New("no ledger"))
	}
	if cfg.Host == "" {
		errs = append(errs, errors.New("no name of the host"))
	}
	cfg.Slice, cfg.MaxRows = cmp.Or(cfg.Slice, DefaultSlice), cmp.Or(cfg.MaxRows, DefaultMaxRows)
	if err := errors.Join(append(errs, ValidSlice(cfg.Slice))...); err != nil {
		return nil, fmt.Errorf("configure meter: %w", err)
	}
	if cfg.Clock == nil {
		cfg.Clock = Clock()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Meter{cfg: cfg, wake: make(chan struct{}, 1), writing: make(chan struct{}, 1), open: map[string]*entry{}}
	m.writing <- struct{}{}
	return m, nil
}

// Load reads the states that an earlier run has left. It is called once, before
// anything is recorded; whoever calls it then records Adopt or Lost for each of
// Open.
func (m *Meter) Load(ctx context.Context) error {
	marks, err := m.cfg.Ledger.Marks(ctx, m.cfg.Host)
	if err != nil {
		return fmt.Errorf("read the states of incarnations: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range marks {
		s, err := Decode(k.Body)
		if err != nil {
			// It stays in the ledger for somebody to look at; the others count on.
			m.cfg.Logger.Error("an incarnation is not counted any more", "incarnation", k.Incarnation, "err", err)
			continue
		}
		m.open[k.Incarnation] = &entry{state: s, version: k.Version}
	}
	return nil
}

// Open lists the incarnations that are being counted.
func (m *Meter) Open() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.open))
}

// Record takes facts that happen now; their At is set here. It waits for
// nothing. Facts of an incarnation that has not started, or has ended, count for
// nothing.
func (m *Meter) Record(facts ...Fact) {
	m.mu.Lock()
	for _, f := range facts {
		f.At = m.cfg.Clock() // under mu, so that facts are in the order of their clock
		m.record(f)
	}
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// record applies one fact. m.mu is held.
func (m *Meter) record(f Fact) {
	e := m.open[f.Incarnation]
	if e == nil {
		if f.Type == Start && f.Subject.Owner.Project != "" && !slices.Contains(m.ended, f.Incarnation) {
			m.open[f.Incarnation] = &entry{state: Begin(f, m.cfg.Slice), version: 1, dirty: true}
		}
		return
	}
	rows := e.state.Apply(f)
	e.version++
	e.dirty = true
	for _, r := range rows {
		if m.cfg.Taken != nil {
			m.cfg.Taken(r)
		}
	}
	m.rows = append(m.rows, rows...)
	if over := len(m.rows) - m.cfg.MaxRows; over > 0 {
		m.cfg.Logger.Error("usage is given up: the ledger has failed for too long", "rows", over)
		m.rows, m.dropped = slices.Delete(m.rows, 0, over), m.dropped+int64(over)
	}
	if e.state.Ended {
		delete(m.open, f.Incarnation)
		m.ended = append(m.ended, f.Incarnation)
	}
}

// Flush writes what has been recorded so far, or says why it is not written; it
// stays to be written then.
func (m *Meter) Flush(ctx context.Context) error {
	select {
	case <-m.writing:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { m.writing <- struct{}{} }()
	batch, versions, dropped := m.batch()
	if len(batch.Marks)+len(batch.Rows)+len(batch.Ended) == 0 {
		return nil
	}
	// A connection that hangs must not be waited for until the end of days.
	wctx, cancel := context.WithTimeout(ctx, flushLimit+time.Duration(len(batch.Rows))*flushPerRow)
	defer cancel()
	_, err := m.cfg.Ledger.Commit(wctx, batch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed++
		return fmt.Errorf("write usage: %w", err)
	}
	m.rows = slices.Delete(m.rows, 0, max(0, len(batch.Rows)-int(m.dropped-dropped)))
	m.ended = slices.Delete(m.ended, 0, len(batch.Ended))
	for inc, v := range versions {
		if e := m.open[inc]; e != nil && e.version == v {
			e.dirty = false
		}
	}
	return nil
}

// batch is all that is not written, with the versions in it and the count of
// dropped rows at that moment.
func (m *Meter) batch() (b billing.Batch, versions map[string]int64, dropped int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	versions = map[string]int64{}
	for inc, e := range m.open {
		if e.dirty {
			versions[inc] = e.version
			b.Marks = append(b.Marks, billing.Mark{Host: m.cfg.Host, Incarnation: inc, Version: e.version, Body: e.state.Encode()})
		}
	}
	slices.SortFunc(b.Marks, func(x, y billing.Mark) int { return cmp.Compare(x.Incarnation, y.Incarnation) })
	b.Rows, b.Ended = slices.Clone(m.rows), slices.Clone(m.ended)
	return b, versions, m.dropped
}

// Run writes what is recorded, as soon as the ledger takes it, until ctx ends;
// then it writes the rest, for a few seconds at most.
func (m *Meter) Run(ctx context.Context) error {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		if pause == 0 {
			select {
			case <-m.wake:
			case <-ctx.Done():
				continue
			}
		} else if sleep.For(ctx, pause) != nil {
			continue
		}
		if err := m.Flush(ctx); err != nil && ctx.Err() == nil {
			pause = min(max(2*pause, retryMin), retryMax)
			m.cfg.Logger.Warn("usage not written; it is kept and tried again", "err", err, "again_in", pause)
			continue
		}
		pause = 0
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
	defer cancel()
	return m.Flush(last)
}

// Preview answers the rows that would arise if everything ended now, without
// IDs. Nothing is recorded.
func (m *Meter) Preview() []billing.Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := slices.Clone(m.rows)
	for _, inc := range slices.Sorted(maps.Keys(m.open)) {
		rows = append(rows, m.open[inc].state.Clone().Apply(Fact{Incarnation: inc, Type: Stop, At: m.cfg.Clock()})...)
	}
	return rows
}

// Stats is how a meter fares.
type Stats struct {
	Open    int   // incarnations being counted
	Waiting int   // rows that are not written
	Dropped int64 // rows given up
	Failed  int64 // writes that failed
}

// Stats never waits for the ledger.
func (m *Meter) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{Open: len(m.open), Waiting: len(m.rows), Dropped: m.dropped, Failed: m.failed}
}
