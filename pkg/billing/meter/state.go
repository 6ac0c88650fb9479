package meter

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

// State is what the facts of one incarnation add up to. It belongs to one
// goroutine.
type State struct {
	Incarnation string  `json:"incarnation"`
	Subject     Subject `json:"subject"`
	// Slice is the grid that windows are cut at, in nanoseconds of UTC.
	Slice int64 `json:"slice"`
	// Boot and Last are the last proof of life; Anchor + Last is its date.
	Boot   string `json:"boot"`
	Last   int64  `json:"last"`
	Anchor int64  `json:"anchor"`
	// From is the date at which the open window begins.
	From    int64 `json:"from"`
	Running bool  `json:"running"`
	Ended   bool  `json:"ended"`

	PagesOpen  int64 `json:"pages,omitempty"`
	Watching   int64 `json:"watching,omitempty"`
	DiskBytes  int64 `json:"disk_bytes,omitempty"`
	EgressSeen int64 `json:"egress_seen,omitempty"`

	Totals map[billing.Kind]total `json:"totals"`
}

// ValidSlice says whether windows may be cut at d: they must not cross midnight.
func ValidSlice(d time.Duration) error {
	if d < time.Minute || d > billing.MaxWindow || billing.MaxWindow%d != 0 {
		return fmt.Errorf("%w slice %s: want a part of %s, at least a minute", billing.ErrInvalid, d, billing.MaxWindow)
	}
	return nil
}

// Begin makes the state of an incarnation from its Start.
func Begin(f Fact, slice time.Duration) *State {
	anchor := f.At.Wall.UnixNano() - f.At.NS
	return &State{
		Incarnation: f.Incarnation, Subject: f.Subject, Slice: int64(slice), Boot: f.At.Boot, Last: f.At.NS, Anchor: anchor,
		From: anchor + f.At.NS, Running: true, Totals: map[billing.Kind]total{},
	}
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*State, error) {
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("read the state of an incarnation: %w", err)
	}
	if err := ValidSlice(time.Duration(s.Slice)); err != nil {
		return nil, fmt.Errorf("read the state of incarnation %q: %w", s.Incarnation, err)
	}
	if s.Incarnation == "" || s.Boot == "" {
		return nil, fmt.Errorf("read the state of incarnation %q: %w: it has no name or no clock", s.Incarnation, billing.ErrInvalid)
	}
	if s.Totals == nil {
		s.Totals = map[billing.Kind]total{}
	}
	return &s, nil
}

// Encode writes all of the state.
func (s *State) Encode() []byte {
	b, _ := json.Marshal(s) // numbers and strings alone: never fails
	return b
}

// Clone shares nothing with s.
func (s *State) Clone() *State {
	c := *s
	c.Totals = maps.Clone(s.Totals)
	return &c
}

// Apply takes a fact of the incarnation and answers the rows that it gives rise
// to. Facts come in the order of their clock; one that comes late counts from
// the last one. After the end nothing counts any more.
func (s *State) Apply(f Fact) []billing.Row {
	if s.Ended || f.Type == Start {
		return nil
	}
	if f.At.Boot != s.Boot {
		return s.reboot(f)
	}
	if f.Type == Lost {
		return s.end()
	}
	rows := s.pass(f)
	switch f.Type {
	case Stop:
		return append(rows, s.end()...)
	case Pause:
		s.Running = false
	case Resume:
		s.Running = true
	case Adopt:
		s.Running, s.EgressSeen = !f.Paused, 0
	case Pages:
		s.PagesOpen = max(f.Count, 0)
	case Viewers:
		s.Watching = max(f.Count, 0)
	case Disk:
		s.DiskBytes = max(f.Count, 0)
	case Egress:
		s.egress(max(f.Count, 0))
	case Start, Lost, Alive: // done above, and nothing more
	}
	return rows
}

// pass counts the time until a fact.
func (s *State) pass(f Fact) []billing.Row {
	was := s.Running
	if f.Type == Adopt {
		// What nobody saw is not counted: people and pages, and running when it
		// stands still by now.
		s.PagesOpen, s.Watching = 0, 0
		s.Running = s.Running && !f.Paused
	}
	rows := s.advance(f.At.NS)
	s.Running = was
	return rows
}

// reboot takes a fact of another boot of the host: no machine has come through.
// A session has; the time between its last proof of life and now is nobody's.
func (s *State) reboot(f Fact) []billing.Row {
	if !s.Subject.Session || f.Type == Lost || f.Type == Stop {
		return s.end()
	}
	// Dates never go back, or a window would be another one's.
	at := max(f.At.Wall.UnixNano(), s.Anchor+s.Last)
	var rows []billing.Row
	if next := s.boundary(); at >= next {
		rows = s.close(s.Anchor + s.Last)
		s.From = at
	}
	s.Boot, s.Last, s.Anchor = f.At.Boot, f.At.NS, at-f.At.NS
	return rows
}

// boundary is the date at which the open window must end.
func (s *State) boundary() int64 {
	n := s.From / s.Slice
	if s.From < 0 && s.From%s.Slice != 0 {
		n--
	}
	if n >= math.MaxInt64/s.Slice-1 {
		return math.MaxInt64
	}
	return (n + 1) * s.Slice
}

// advance counts levels up to a reading of the clock and closes the windows that
// end by then.
func (s *State) advance(to int64) []billing.Row {
	var rows []billing.Row
	for s.Last < to {
		edge := s.boundary() - s.Anchor
		upto := min(to, edge)
		s.count(uint64(upto - s.Last))
		s.Last = upto
		if upto == edge {
			rows = append(rows, s.close(s.Anchor+edge)...)
		}
	}
	return rows
}

// count adds ns nanoseconds of everything that is on.
func (s *State) count(ns uint64) {
	add := func(k billing.Kind, level int64, per uint64) {
		if level <= 0 {
			return
		}
		t := s.Totals[k]
		t.add(uint64(level), ns, per)
		s.Totals[k] = t
	}
	if s.Subject.Session {
		add(billing.SessionAliveSeconds, 1, second)
		return
	}
	if s.Running {
		add(billing.SandboxActiveSeconds, 1, second)
		add(billing.VCPUSeconds, s.Subject.VCPUs, second)
		add(billing.BrowserActiveSeconds, min(s.PagesOpen, 1), second)
	}
	add(billing.MemoryGiBSeconds, s.Subject.MemoryMiB, perGiBOfMiB)
	add(billing.DiskGiBSeconds, s.DiskBytes, perGiBOfBytes)
	add(billing.ViewerSeconds, s.Watching, second)
}

func (s *State) egress(seen int64) {
	more := seen - s.EgressSeen
	if more < 0 {
		more = seen
	}
	s.EgressSeen = seen
	t := s.Totals[billing.EgressBytes]
	t.Units += uint64(more)
	s.Totals[billing.EgressBytes] = t
}

// close gives out the open window, which ends at a date, and opens the next.
func (s *State) close(end int64) []billing.Row {
	// What came in no time at all lies in the nanosecond that it came in.
	start, end := s.From, max(end, s.From+1)
	var rows []billing.Row
	for _, k := range billing.Kinds() {
		t := s.Totals[k]
		v := t.take()
		s.Totals[k] = t
		if v == 0 {
			continue
		}
		rows = append(rows, billing.Row{
			Incarnation: s.Incarnation, Kind: k, Start: time.Unix(0, start).UTC(), End: time.Unix(0, end).UTC(),
			Value: int64(min(v, math.MaxInt64)), Owner: s.Subject.Owner,
		})
	}
	s.From = end
	return rows
}

// end gives out what is left, up to the last proof of life.
func (s *State) end() []billing.Row {
	s.Ended = true
	return s.close(s.Anchor + s.Last)
}
