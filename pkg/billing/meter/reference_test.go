package meter_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/meter"
)

// span is a time in which nothing changed, in dates.
type span struct {
	from, to int64
	levels   map[billing.Kind]int64
}

// history is what a log of facts says of one incarnation, written down without
// running totals or windows: the reference that the meter must agree with.
type history struct {
	subject meter.Subject
	spans   []span
	egress  map[int64]int64 // bytes by date
}

// per is how much of a level times nanoseconds is one unit.
func per(k billing.Kind) *big.Int {
	n := big.NewInt(1_000_000_000)
	switch k {
	case billing.MemoryGiBSeconds:
		return n.Mul(n, big.NewInt(1024))
	case billing.DiskGiBSeconds:
		return n.Mul(n, big.NewInt(1<<30))
	default:
		return n
	}
}

// read makes the history of a log of facts of one incarnation.
func read(log []meter.Fact) history {
	h := history{egress: map[int64]int64{}}
	var (
		boot             string
		last, anchor     int64
		running          bool
		pages, eyes      int64
		disk, seen, date int64
	)
	for i, f := range log {
		if i == 0 {
			h.subject, boot, last, anchor, running = f.Subject, f.At.Boot, f.At.NS, f.At.Wall.UnixNano()-f.At.NS, true
			continue
		}
		if f.Type == meter.Lost || (f.At.Boot != boot && (!h.subject.Session || f.Type == meter.Stop)) {
			break
		}
		if f.At.Boot != boot {
			date = max(f.At.Wall.UnixNano(), anchor+last)
			boot, last, anchor = f.At.Boot, f.At.NS, date-f.At.NS
			continue
		}
		active := running
		if f.Type == meter.Adopt {
			pages, eyes, seen, active = 0, 0, 0, running && !f.Paused
		}
		if f.At.NS > last {
			lv := map[billing.Kind]int64{billing.SessionAliveSeconds: 1}
			if !h.subject.Session {
				lv = map[billing.Kind]int64{billing.MemoryGiBSeconds: h.subject.MemoryMiB, billing.DiskGiBSeconds: disk, billing.ViewerSeconds: eyes}
				if active {
					lv[billing.SandboxActiveSeconds], lv[billing.VCPUSeconds] = 1, h.subject.VCPUs
				}
				if active && pages > 0 {
					lv[billing.BrowserActiveSeconds] = 1
				}
			}
			h.spans = append(h.spans, span{anchor + last, anchor + f.At.NS, lv})
			last = f.At.NS
		}
		switch f.Type {
		case meter.Pause:
			running = false
		case meter.Resume:
			running = true
		case meter.Adopt:
			running = !f.Paused
		case meter.Pages:
			pages = f.Count
		case meter.Viewers:
			eyes = f.Count
		case meter.Disk:
			disk = f.Count
		case meter.Egress:
			if f.Count < seen {
				seen = 0
			}
			h.egress[anchor+last] += f.Count - seen
			seen = f.Count
		case meter.Start, meter.Stop, meter.Alive, meter.Lost:
		}
		if f.Type == meter.Stop {
			break
		}
	}
	return h
}

// until is how many whole units of a kind there were before a date.
func (h history) until(k billing.Kind, date int64) int64 {
	if k == billing.EgressBytes {
		var n int64
		for at, bytes := range h.egress {
			if at < date {
				n += bytes
			}
		}
		return n
	}
	sum := new(big.Int)
	for _, s := range h.spans {
		if ns := min(s.to, date) - s.from; ns > 0 {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(s.levels[k]), big.NewInt(ns)))
		}
	}
	return sum.Div(sum, per(k)).Int64()
}

// use is how much of each kind there must be in each slot of the grid.
func (h history) use(slice time.Duration) map[slot]int64 {
	step := int64(slice)
	slots := map[int64]bool{}
	for _, s := range h.spans {
		for at := s.from / step; at*step < s.to; at++ {
			slots[at] = true
		}
	}
	for at := range h.egress {
		slots[at/step] = true
	}
	out := map[slot]int64{}
	for at := range slots {
		for _, k := range billing.Kinds() {
			if n := h.until(k, (at+1)*step) - h.until(k, at*step); n > 0 {
				out[slot{at, k}] = n
			}
		}
	}
	return out
}

// slot is a part of the grid.
type slot struct {
	at   int64
	kind billing.Kind
}

// agree compares the rows of an incarnation with its log.
func agree(t *testing.T, inc string, log []meter.Fact, rows []billing.Row, slice time.Duration) {
	t.Helper()
	got := map[slot]int64{}
	for _, r := range rows {
		if r.Incarnation != inc {
			continue
		}
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
		at := slot{r.Start.UnixNano() / int64(slice), r.Kind}
		if _, twice := got[at]; twice {
			t.Errorf("%s has two rows of %s in one slot", inc, r.Kind)
		}
		if r.End.UnixNano() > (at.at+1)*int64(slice) {
			t.Errorf("row from %s to %s is not within a slice of %s", r.Start, r.End, slice)
		}
		got[at] = r.Value
	}
	if d := cmp.Diff(read(log).use(slice), got, cmp.AllowUnexported(slot{})); d != "" {
		t.Errorf("%s (-reference +ledger):\n%s", inc, d)
	}
}
