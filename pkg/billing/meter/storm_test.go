package meter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/meter"
)

// epoch is where the wall clocks of tests begin.
var epoch = time.Date(2026, 11, 1, 22, 59, 0, 0, time.UTC)

// world is a host with its clocks, its machines, and the process that counts
// them. It belongs to one goroutine.
type world struct {
	t      *testing.T
	rnd    *rand.Rand
	ledger *flaky
	slice  time.Duration
	meter  *meter.Meter
	now    meter.Instant
	boots  int
	names  int
	live   map[string]*meter.Fact  // what lives, by its Start; Paused as it is
	count  map[string]int64        // egress counters of this run
	log    map[string][]meter.Fact // what happened, by incarnation
	kept   map[string]int          // how much of log the ledger knows
}

func newWorld(t *testing.T, ledger billing.Ledger, seed uint64, slice time.Duration) *world {
	t.Helper()
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 1)), ledger: &flaky{Ledger: ledger}, slice: slice,
		now:  meter.Instant{Boot: "boot0", NS: 5_000_000_000, Wall: epoch},
		live: map[string]*meter.Fact{}, count: map[string]int64{}, log: map[string][]meter.Fact{}, kept: map[string]int{},
	}
	w.open()
	return w
}

// open starts a process that counts.
func (w *world) open() {
	w.t.Helper()
	m, err := meter.New(meter.Config{Ledger: w.ledger, Host: "h", Clock: func() meter.Instant { return w.now }, Slice: w.slice})
	if err == nil {
		err = m.Load(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.meter = m
}

func (w *world) pass(d time.Duration) {
	w.now.NS += int64(d)
	w.now.Wall = w.now.Wall.Add(d)
}

func (w *world) record(f meter.Fact) {
	w.meter.Record(f)
	f.At = w.now
	w.log[f.Incarnation] = append(w.log[f.Incarnation], f)
}

// flush writes; what the ledger has then is known of.
func (w *world) flush() {
	before := w.ledger.done
	_ = w.meter.Flush(context.Background()) // the next one writes it
	if w.ledger.done > before {
		for inc, log := range w.log {
			w.kept[inc] = len(log)
		}
	}
}

// kill ends the process that counts, or its host too, and begins the next.
func (w *world) kill(host bool) {
	for inc := range w.log {
		if w.log[inc] = w.log[inc][:w.kept[inc]]; len(w.log[inc]) == 0 {
			delete(w.log, inc)
		}
	}
	w.pass(time.Duration(w.rnd.Int64N(int64(3 * time.Hour))))
	if host {
		w.boots++
		w.now.Boot, w.now.NS = fmt.Sprintf("boot%d", w.boots), w.rnd.Int64N(1e11)
	}
	w.ledger.fail = nil
	w.open()
	known := w.meter.Open()
	for _, inc := range slices.Sorted(maps.Keys(w.live)) {
		if f := w.live[inc]; !slices.Contains(known, inc) || (host && !f.Subject.Session) || w.rnd.IntN(4) == 0 {
			delete(w.live, inc) // nobody heard of its start, or it died meanwhile
		}
	}
	clear(w.count)
	for _, inc := range known {
		if f := w.live[inc]; f != nil {
			w.record(meter.Fact{Incarnation: inc, Type: meter.Adopt, Paused: f.Paused})
		} else {
			w.record(meter.Fact{Incarnation: inc, Type: meter.Lost})
		}
	}
}

// step lets one thing happen.
func (w *world) step() {
	w.pass(time.Duration(w.rnd.Int64N(int64(time.Hour)) >> w.rnd.IntN(30)))
	if w.rnd.IntN(20) == 0 { // nobody may believe the wall clock
		w.now.Wall = w.now.Wall.Add(time.Duration(w.rnd.Int64N(int64(1000*time.Hour))) - 500*time.Hour)
	}
	names := slices.Sorted(maps.Keys(w.live))
	if len(names) < 3 {
		w.start()
		return
	}
	inc := names[w.rnd.IntN(len(names))]
	f := w.live[inc]
	switch w.rnd.IntN(16) {
	case 0:
		w.start()
	case 1:
		w.record(meter.Fact{Incarnation: inc, Type: meter.Stop})
		delete(w.live, inc)
	case 2, 3:
		f.Paused = true
		w.record(meter.Fact{Incarnation: inc, Type: meter.Pause})
	case 4, 5, 6:
		f.Paused = false
		w.record(meter.Fact{Incarnation: inc, Type: meter.Resume})
	case 7:
		w.record(meter.Fact{Incarnation: inc, Type: meter.Pages, Count: w.rnd.Int64N(3)})
	case 8:
		w.record(meter.Fact{Incarnation: inc, Type: meter.Viewers, Count: w.rnd.Int64N(4)})
	case 9:
		w.record(meter.Fact{Incarnation: inc, Type: meter.Disk, Count: w.rnd.Int64N(1 << 40)})
	case 10:
		w.count[inc] += w.rnd.Int64N(1 << 33)
		w.record(meter.Fact{Incarnation: inc, Type: meter.Egress, Count: w.count[inc]})
	case 11, 12:
		for _, inc := range names {
			w.record(meter.Fact{Incarnation: inc, Type: meter.Alive})
		}
	default:
		w.flush()
	}
}

func (w *world) start() {
	w.names++
	f := meter.Fact{Incarnation: fmt.Sprintf("i%d", w.names), Type: meter.Start, Subject: meter.Subject{
		Owner: billing.Owner{Project: "p", Session: "s", Agent: "a"}, VCPUs: 1 + w.rnd.Int64N(8), MemoryMiB: 512 << w.rnd.IntN(6),
		Session: w.rnd.IntN(5) == 0,
	}}
	w.record(f)
	w.live[f.Incarnation] = &f
}

// finish ends everything and compares.
func (w *world) finish() {
	w.t.Helper()
	w.ledger.fail = nil
	for _, inc := range slices.Sorted(maps.Keys(w.live)) {
		w.record(meter.Fact{Incarnation: inc, Type: meter.Stop})
	}
	if err := w.meter.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if marks, err := w.ledger.Marks(w.t.Context(), "h"); err != nil || len(marks) > 0 {
		w.t.Errorf("%d marks are left, %v", len(marks), err)
	}
	rows, err := billingtest.All(w.t.Context(), w.ledger, billing.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	for inc, log := range w.log {
		agree(w.t, inc, log, rows, w.slice)
	}
	if len(w.log) > 0 && len(rows) == 0 {
		w.t.Error("nothing was counted")
	}
	for _, r := range rows {
		if w.log[r.Incarnation] == nil {
			w.t.Errorf("row of %s, which was not", r.Incarnation)
		}
	}
}

var errDown = errors.New("the database is down")

// flaky is a ledger whose writes fail: before they have had an effect, or after.
type flaky struct {
	billing.Ledger

	fail  func(after bool) bool // nil: never
	done  int                   // commits that had an effect
	calls int
}

func (f *flaky) Commit(ctx context.Context, b billing.Batch) (int, error) {
	f.calls++
	if f.fail != nil && f.fail(false) {
		return 0, errDown
	}
	n, err := f.Ledger.Commit(ctx, b)
	if err != nil {
		return 0, err
	}
	f.done++
	if f.fail != nil && f.fail(true) {
		return 0, errDown
	}
	return n, nil
}

// TestStorm lets many things happen under random kills of the process and of the
// host and failures of the database, and compares every row with the reference.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			storm(t, billingtest.NewMemory(), seed, 250)
		})
	}
}

func storm(t *testing.T, ledger billing.Ledger, seed uint64, steps int) {
	t.Helper()
	slices := []time.Duration{time.Hour, 15 * time.Minute, 24 * time.Hour}
	w := newWorld(t, ledger, seed, slices[seed%3])
	for range steps {
		switch w.rnd.IntN(30) {
		case 0:
			w.kill(false)
		case 1:
			w.kill(w.rnd.IntN(2) == 0)
		case 2:
			w.ledger.fail = func(bool) bool { return w.rnd.IntN(3) == 0 }
		case 3:
			w.ledger.fail = nil
		default:
			w.step()
		}
	}
	w.finish()
}

// TestKillAtEveryStep replays one history and kills whoever counts at each write,
// before and after its effect, with the host and without.
func TestKillAtEveryStep(t *testing.T) {
	t.Parallel()
	const steps = 120
	run := func(t *testing.T, at int, after, host bool) (calls int) {
		t.Helper()
		w := newWorld(t, billingtest.NewMemory(), 7, time.Hour)
		killed := false
		w.ledger.fail = func(now bool) bool {
			if w.ledger.calls == at && now == after {
				killed = true
			}
			return killed
		}
		for range steps {
			w.step()
			if killed {
				killed, at = false, -1
				w.kill(host)
			}
		}
		w.finish()
		return w.ledger.calls
	}
	calls := run(t, -1, false, false)
	if calls < 15 {
		t.Fatalf("the history has %d writes alone", calls)
	}
	for at := 1; at <= calls; at++ {
		for _, after := range []bool{false, true} {
			for _, host := range []bool{false, true} {
				t.Run(fmt.Sprintf("write %d after %t host %t", at, after, host), func(t *testing.T) {
					t.Parallel()
					run(t, at, after, host)
				})
			}
		}
	}
}
