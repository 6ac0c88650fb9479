// Package usage counts what the desktops of a host use, and answers who asks
// for it.
//
// It hears of each turn in the life of an incarnation, takes a proof of life of
// each every half a minute, and keeps both in a ledger of its own: a database
// beside that of the desktops, so that neither waits for the other. Nothing here
// can make the end of a desktop fail, or wait.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/focus"
	"github.com/deskfork/deskfork/pkg/billing/meter"
	"github.com/deskfork/deskfork/pkg/billing/rate"
	"github.com/deskfork/deskfork/pkg/billing/sqlstore"
	"github.com/deskfork/deskfork/pkg/vm"
)

// DatabaseName is the file of the ledger in the data directory.
const DatabaseName = "usage.db"

// Labels of a desktop that say whose work it does.
const (
	LabelSession = "session"
	LabelAgent   = "agent"
)

// DefaultProof is the pause between proofs of life: what a crash may cost at most.
const DefaultProof = 30 * time.Second

// durableLimit is how long a pause may wait for being written down.
const durableLimit = 250 * time.Millisecond

// Config is what a book is made of. The zero value counts into a file and knows
// no prices.
type Config struct {
	// Ledger keeps what is counted. Nil: a database file in the data directory.
	Ledger billing.Ledger
	// Database is the URL of a PostgreSQL database that several hosts share, used
	// when Ledger is nil. Empty: a database file.
	Database string
	// Host names this host in the ledger. Empty: "host".
	Host string
	// Rates says what use costs. Nil: no price is known.
	Rates *rate.Book
	// Party is who offers and bills, for FOCUS.
	Party focus.Party
	// Slice is the longest window of a row. Zero: an hour.
	Slice time.Duration
	// Proof is the pause between proofs of life. Zero: DefaultProof.
	Proof time.Duration
	// Clock reads the host's clocks. Nil: the real ones.
	Clock func() meter.Instant
}

// Book counts. Safe for concurrent use.
type Book struct {
	cfg    Config
	log    *slog.Logger
	ledger billing.Ledger
	close  func() error
	meter  *meter.Meter
	counts *counters

	mu      sync.Mutex
	living  map[string]vm.Machine // guarded by mu; by incarnation
	viewers map[string]int64      // guarded by mu; by incarnation
	pages   map[string]int64      // guarded by mu; by incarnation
}

// Open opens the ledger. It starts nothing: see Load and Run.
func Open(ctx context.Context, dir string, cfg Config, log *slog.Logger) (*Book, error) {
	b := &Book{
		cfg: cfg, log: log, ledger: cfg.Ledger, close: func() error { return nil }, counts: newCounters(),
		living: map[string]vm.Machine{}, viewers: map[string]int64{}, pages: map[string]int64{},
	}
	b.cfg.Proof = cmp.Or(cfg.Proof, DefaultProof)
	if b.ledger == nil {
		db, err := openLedger(ctx, dir, cfg.Database)
		if err != nil {
			return nil, err
		}
		b.ledger, b.close = db, db.Close
	}
	m, err := meter.New(meter.Config{
		Ledger: b.ledger, Host: cmp.Or(cfg.Host, "host"), Clock: cfg.Clock, Slice: cfg.Slice, Taken: b.counts.taken, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.meter, b.counts.stats = m, m.Stats
	return b, nil
}

func openLedger(ctx context.Context, dir, url string) (*sqlstore.Store, error) {
	if url != "" {
		return sqlstore.OpenPostgres(ctx, url)
	}
	return sqlstore.OpenSQLite(ctx, filepath.Join(dir, DatabaseName))
}

// Close closes the ledger. Run has returned.
func (b *Book) Close() error { return b.close() }

// Load reads what an earlier run of the host was counting. Adopted is then told
// of every machine that was found, and Settle ends the rest.
func (b *Book) Load(ctx context.Context) error { return b.meter.Load(ctx) }

// Started begins to count the machine of a desktop. Of one that is counted
// already it does nothing.
func (b *Book) Started(row store.Desktop, m vm.Machine) { b.begin(row, m, false) }

// Adopted goes on counting the machine of an earlier run.
func (b *Book) Adopted(row store.Desktop, m vm.Machine) { b.begin(row, m, true) }

func (b *Book) begin(row store.Desktop, m vm.Machine, adopted bool) {
	info := m.Info()
	inc := string(info.Incarnation)
	facts := []meter.Fact{{Incarnation: inc, Type: meter.Start, Subject: meter.Subject{
		Owner: billing.Owner{
			Project: row.Project, Session: row.Labels[LabelSession], Agent: row.Labels[LabelAgent], Desktop: row.ID,
		},
		VCPUs: int64(info.Shape.VCPUs), MemoryMiB: int64(info.Shape.MemoryMiB),
	}}}
	if adopted {
		facts = append(facts, meter.Fact{Incarnation: inc, Type: meter.Adopt, Paused: info.State == vm.StatePaused})
	}
	b.mu.Lock()
	b.living[inc] = m
	b.mu.Unlock()
	b.meter.Record(append(facts, sample(inc, info)...)...)
}

// sample is what a machine says of itself.
func sample(inc string, info vm.Info) []meter.Fact {
	return []meter.Fact{
		{Incarnation: inc, Type: meter.Disk, Count: info.DiskBytes}, {Incarnation: inc, Type: meter.Egress, Count: info.EgressBytes},
	}
}

// Paused says that vCPUs stand still. It waits a moment until that is written: a
// crash must not bill a pause that its caller knows of.
func (b *Book) Paused(inc vm.Incarnation) {
	b.meter.Record(meter.Fact{Incarnation: string(inc), Type: meter.Pause})
	ctx, cancel := context.WithTimeout(context.Background(), durableLimit)
	defer cancel()
	_ = b.meter.Flush(ctx) // Run tries again, and says so
}

// Resumed says that vCPUs run again.
func (b *Book) Resumed(inc vm.Incarnation) {
	b.meter.Record(meter.Fact{Incarnation: string(inc), Type: meter.Resume})
}

// Ended says that a machine has ended, or is not its desktop's any more. Of one
// that is not counted it does nothing.
func (b *Book) Ended(inc vm.Incarnation) {
	b.mu.Lock()
	m := b.living[string(inc)]
	delete(b.living, string(inc))
	delete(b.viewers, string(inc))
	delete(b.pages, string(inc))
	b.mu.Unlock()
	var facts []meter.Fact
	if m != nil {
		facts = sample(string(inc), m.Info())
	}
	b.meter.Record(append(facts, meter.Fact{Incarnation: string(inc), Type: meter.Stop})...)
}

// Watch counts a viewer of a desktop until the returned function is called.
func (b *Book) Watch(inc vm.Incarnation) (leave func()) {
	return b.level(inc, meter.Viewers, b.viewers)
}

// Browse counts an open page of a desktop's browser until the returned function
// is called.
func (b *Book) Browse(inc vm.Incarnation) (closed func()) {
	return b.level(inc, meter.Pages, b.pages)
}

func (b *Book) level(inc vm.Incarnation, typ meter.Type, levels map[string]int64) func() {
	change := func(by int64) (counted bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.living[string(inc)] == nil {
			return false
		}
		levels[string(inc)] += by
		// Under mu, so that two changes are recorded in their order.
		b.meter.Record(meter.Fact{Incarnation: string(inc), Type: typ, Count: levels[string(inc)]})
		return true
	}
	if !change(1) {
		return func() {}
	}
	return sync.OnceFunc(func() { change(-1) })
}

// Settle ends machines of an earlier run that were not adopted, at their last
// proof of life. Sessions are those of who runs them.
func (b *Book) Settle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, inc := range b.meter.Open() {
		if b.living[inc] == nil && !strings.HasPrefix(inc, sessionPrefix) {
			b.meter.Record(meter.Fact{Incarnation: inc, Type: meter.Lost})
		}
	}
}

// Run takes proofs of life and writes what was counted, until ctx ends; then it
// takes the last proof and writes the rest.
func (b *Book) Run(ctx context.Context) {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := b.meter.Run(writing); err != nil {
			b.log.Error("use of the last moments is not written", "err", err)
		}
	})
	tick := time.NewTicker(b.cfg.Proof)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		b.prove()
	}
	stop()
	wait.Wait()
}

// prove records that the machines live that do.
func (b *Book) prove() {
	b.mu.Lock()
	living := maps.Clone(b.living)
	b.mu.Unlock()
	var facts []meter.Fact
	for _, inc := range slices.Sorted(maps.Keys(living)) {
		m := living[inc]
		select {
		case <-m.Done():
			continue // whoever watches it says when it ended
		default:
		}
		facts = append(facts, sample(inc, m.Info())...)
	}
	b.meter.Record(facts...)
}

// Open is how many machines and sessions are being counted.
func (b *Book) Open() int { return b.meter.Stats().Open }

// badQuery gives errors of a query their code.
func badQuery(err error) error {
	if errors.Is(err, billing.ErrInvalid) {
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	return fmt.Errorf("read use: %w", err)
}
