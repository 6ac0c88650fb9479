package meter_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/meter"
)

func machine(inc string) meter.Fact {
	return meter.Fact{Incarnation: inc, Type: meter.Start, Subject: meter.Subject{
		Owner: billing.Owner{Project: "p"}, VCPUs: 2, MemoryMiB: 3072,
	}}
}

// sums adds up what a ledger has.
func sums(t *testing.T, l billing.Ledger) map[billing.Kind]int64 {
	t.Helper()
	rows, err := billingtest.All(t.Context(), l, billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	by := map[billing.Kind]int64{}
	for _, r := range rows {
		by[r.Kind] += r.Value
	}
	return by
}

// TestPauseAMinuteLosesNothing: 59.3 s of work and 0.7 s of rest, five thousand
// times.
func TestPauseAMinuteLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billingtest.NewMemory(), 1, time.Hour)
	w.record(machine("i1"))
	for range 5000 {
		w.pass(59300 * time.Millisecond)
		w.record(meter.Fact{Incarnation: "i1", Type: meter.Pause})
		w.pass(700 * time.Millisecond)
		w.record(meter.Fact{Incarnation: "i1", Type: meter.Resume})
	}
	w.record(meter.Fact{Incarnation: "i1", Type: meter.Stop})
	w.flush()
	got := sums(t, w.ledger)
	for k, want := range map[billing.Kind]int64{
		billing.SandboxActiveSeconds: 296_500, billing.VCPUSeconds: 593_000, billing.MemoryGiBSeconds: 900_000, billing.ViewerSeconds: 0,
	} {
		if got[k] != want {
			t.Errorf("%s: got %d, want %d", k, got[k], want)
		}
	}
}

// TestLongRunIsSliced: nothing of 100 hours is clamped away, and no window
// crosses midnight.
func TestLongRunIsSliced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billingtest.NewMemory(), 1, 24*time.Hour)
	w.record(machine("i1"))
	w.pass(100 * time.Hour)
	w.record(meter.Fact{Incarnation: "i1", Type: meter.Stop})
	w.flush()
	rows, _ := w.ledger.List(t.Context(), billing.Query{})
	n := 0
	for _, r := range rows {
		if r.Start.Truncate(24*time.Hour) != r.End.Add(-1).Truncate(24*time.Hour) {
			t.Errorf("window from %s to %s crosses midnight", r.Start, r.End)
		}
		if r.Kind == billing.SandboxActiveSeconds {
			n++
		}
	}
	if got := sums(t, w.ledger)[billing.SandboxActiveSeconds]; got != 360_000 || n != 6 {
		t.Errorf("got %d s in %d rows", got, n)
	}
}

// TestCrashBillsToTheLastProof: what came after it, known or not, costs nobody.
func TestCrashBillsToTheLastProof(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]bool{"process": false, "host": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, billingtest.NewMemory(), 1, time.Hour)
			w.record(machine("i1"))
			w.pass(30 * time.Second)
			w.record(meter.Fact{Incarnation: "i1", Type: meter.Alive})
			w.flush()
			w.pass(25 * time.Second)
			w.record(meter.Fact{Incarnation: "i1", Type: meter.Alive}) // never written
			clear(w.live)                                              // it does not live
			w.kill(host)
			w.flush()
			if got := sums(t, w.ledger)[billing.SandboxActiveSeconds]; got != 30 {
				t.Errorf("got %d s", got)
			}
		})
	}
}

// TestRecordDuringAWrite: what comes while the ledger writes is written next.
func TestRecordDuringAWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billingtest.NewMemory(), 1, time.Hour)
	w.record(machine("i1"))
	w.ledger.fail = func(after bool) bool {
		if after {
			w.pass(10 * time.Second)
			w.meter.Record(meter.Fact{Incarnation: "i1", Type: meter.Pause})
		}
		return false
	}
	w.flush()
	w.ledger.fail = nil
	w.flush()
	w.open()
	w.meter.Record(meter.Fact{Incarnation: "i1", Type: meter.Lost})
	w.flush()
	if got := sums(t, w.ledger)[billing.SandboxActiveSeconds]; got != 10 {
		t.Errorf("got %d s", got)
	}
}

// stuck is a ledger that never answers.
type stuck struct{ billing.Ledger }

func (stuck) Commit(ctx context.Context, _ billing.Batch) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestRecordNeverWaits: with a ledger that hangs, facts are taken at once, and
// the end of Run is bounded.
func TestRecordNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := meter.New(meter.Config{Ledger: stuck{billingtest.NewMemory()}, Host: "h"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		began := time.Now()
		for range 1000 {
			m.Record(machine("i1"), meter.Fact{Incarnation: "i1", Type: meter.Pause}, meter.Fact{Incarnation: "i1", Type: meter.Stop})
			synctest.Wait()
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("facts waited %s", took)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the end of Run says %v", err)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the end took %s", took)
		}
	})
}

// stuckOnce is a ledger whose first write hangs.
type stuckOnce struct {
	billing.Ledger

	came atomic.Bool
}

func (s *stuckOnce) Commit(ctx context.Context, b billing.Batch) (int, error) {
	if !s.came.Swap(true) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return s.Ledger.Commit(ctx, b)
}

// TestRunLeavesAHangingWrite: one write that hangs does not hold all later ones.
func TestRunLeavesAHangingWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &stuckOnce{Ledger: billingtest.NewMemory()}
		m, err := meter.New(meter.Config{Ledger: l, Host: "h"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		m.Record(machine("i1"))
		time.Sleep(5 * time.Minute) //nolint:forbidigo // of the bubble
		synctest.Wait()
		if marks, err := l.Marks(t.Context(), "h"); len(marks) != 1 || err != nil {
			t.Errorf("%d marks are written, %v", len(marks), err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRunTriesAgain: a ledger that comes back gets everything.
func TestRunTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		l := &flaky{Ledger: billingtest.NewMemory(), fail: func(bool) bool { return down.Load() }}
		m, err := meter.New(meter.Config{Ledger: l, Host: "h", Clock: func() meter.Instant {
			return meter.Instant{Boot: "b", NS: time.Now().UnixNano(), Wall: time.Now()}
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		m.Record(machine("i1"))
		time.Sleep(10 * time.Minute) //nolint:forbidigo // of the bubble
		m.Record(meter.Fact{Incarnation: "i1", Type: meter.Stop})
		synctest.Wait()
		if st := m.Stats(); st.Waiting == 0 || st.Failed == 0 {
			t.Errorf("%+v", st)
		}
		down.Store(false)
		time.Sleep(time.Minute) //nolint:forbidigo // of the bubble
		synctest.Wait()
		if st := m.Stats(); st.Waiting != 0 || st.Dropped != 0 {
			t.Errorf("%+v", st)
		}
		if got := sums(t, l)[billing.SandboxActiveSeconds]; got != 600 {
			t.Errorf("got %d s", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestQueueIsBounded: the oldest rows are given up, and that is told.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	now := meter.Instant{Boot: "b", Wall: epoch}
	l := &flaky{Ledger: billingtest.NewMemory(), fail: func(bool) bool { return true }}
	m, err := meter.New(meter.Config{Ledger: l, Host: "h", MaxRows: 7, Clock: func() meter.Instant { return now }})
	if err != nil {
		t.Fatal(err)
	}
	m.Record(machine("i1"))
	for range 10 {
		now.NS += int64(time.Hour)
		m.Record(meter.Fact{Incarnation: "i1", Type: meter.Alive})
	}
	if st := m.Stats(); st.Waiting != 7 || st.Dropped != 23 {
		t.Errorf("%+v", st)
	}
	// The prefix that is being written may be given up meanwhile.
	l.fail = func(after bool) bool {
		if after {
			now.NS += int64(time.Hour)
			m.Record(meter.Fact{Incarnation: "i1", Type: meter.Alive})
		}
		return false
	}
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := m.Stats(); st.Waiting != 3 {
		t.Errorf("%+v", st)
	}
}

// TestPreview tells what is used by now and changes nothing.
func TestPreview(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billingtest.NewMemory(), 1, time.Hour)
	w.record(machine("i1"))
	for want := int64(7); want <= 21; want += 7 {
		w.pass(7 * time.Second)
		rows := w.meter.Preview()
		if len(rows) != 3 || rows[0].Value != want {
			t.Errorf("got %+v", rows)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]meter.Config{
		"no ledger": {Host: "h"}, "no host": {Ledger: billingtest.NewMemory()},
		"too short":       {Ledger: billingtest.NewMemory(), Host: "h", Slice: time.Second},
		"over midnight":   {Ledger: billingtest.NewMemory(), Host: "h", Slice: 7 * time.Hour},
		"more than a day": {Ledger: billingtest.NewMemory(), Host: "h", Slice: 48 * time.Hour},
	} {
		if _, err := meter.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	a, b := meter.Clock(), meter.Clock()
	x, y := a(), b()
	if x.Boot == "" || x.Boot != y.Boot || y.NS < x.NS || x.NS <= 0 {
		t.Errorf("%+v then %+v", x, y)
	}
}

// TestDamagedState: one state that cannot be read keeps none of the others.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, billingtest.NewMemory(), 1, time.Hour)
	w.record(machine("i1"))
	w.flush()
	for _, body := range []string{``, `{}`, `{"incarnation":"x"}`, `{"incarnation":"x","slice":3600000000000}`, `[]`} {
		_, err := w.ledger.Commit(t.Context(), billing.Batch{Marks: []billing.Mark{{Host: "h", Incarnation: "i2", Version: 1, Body: []byte(body)}}})
		if err != nil {
			t.Fatal(err)
		}
		w.open()
		if open := w.meter.Open(); len(open) != 1 || open[0] != "i1" {
			t.Errorf("with %q: open are %v", body, open)
		}
		_, _ = w.ledger.Commit(t.Context(), billing.Batch{Ended: []string{"i2"}})
	}
}

// FuzzApply reads facts from bytes. Whatever they say, time is counted once.
func FuzzApply(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d"), true)
	f.Add([]byte{3, 0, 255, 255, 4, 0, 1, 0, 5, 1, 0, 9, 9, 1, 0, 0, 1, 0, 0, 0}, false)
	types := []meter.Type{
		meter.Start, meter.Stop, meter.Lost, meter.Pause, meter.Resume, meter.Alive, meter.Adopt, meter.Pages, meter.Viewers,
		meter.Egress, meter.Disk, "unknown",
	}
	f.Fuzz(func(t *testing.T, b []byte, session bool) {
		b = b[:min(len(b), 2<<10)]
		first := machine("i1")
		first.Subject.Session = session
		first.At = meter.Instant{Boot: "b", NS: 1e9, Wall: epoch}
		s, now := meter.Begin(first, time.Hour), first.At
		var passed int64
		var rows []billing.Row
		for ; len(b) >= 4; b = b[4:] {
			d := int64(int16(binary.LittleEndian.Uint16(b[1:]))) * int64(time.Second) / 7
			now.NS += d
			passed += max(d, 0)
			now.Wall = now.Wall.Add(time.Duration(int8(b[3])) * time.Hour)
			if b[3] == 77 {
				now.Boot += "b"
			}
			more := s.Apply(meter.Fact{
				Incarnation: "i1", Type: types[int(b[0])%len(types)], At: now, Count: int64(int8(b[3])) << (b[0] / 8), Paused: b[3]&1 == 1,
			})
			rows = append(rows, more...)
			back, err := meter.Decode(s.Encode())
			if err != nil || string(back.Encode()) != string(s.Encode()) {
				t.Fatalf("state does not come back: %v", err)
			}
		}
		rows = append(rows, s.Apply(meter.Fact{Type: meter.Stop, At: now})...)
		seen, last, sum := map[billing.Key]bool{}, time.Time{}, int64(0)
		for _, r := range rows {
			if err := r.Validate(); err != nil || seen[r.Key()] || r.Start.Before(last) {
				t.Fatalf("row %+v: %v, twice %t", r, err, seen[r.Key()])
			}
			seen[r.Key()], last = true, r.Start
			if r.Kind == billing.SandboxActiveSeconds || r.Kind == billing.SessionAliveSeconds {
				sum += r.Value
			}
		}
		if sum*int64(time.Second) > passed {
			t.Fatalf("%d s counted, %d ns passed", sum, passed)
		}
	})
}
