package meter

import "math/bits"

// Denominators of running totals: a level times nanoseconds, divided by one of
// them, is whole units.
const (
	second = 1_000_000_000
	// perGiBOfMiB turns MiB·ns into GiB·s, perGiBOfBytes byte·ns.
	perGiBOfMiB   = second << 10
	perGiBOfBytes = second << 30
)

// total is a running sum: whole units, and the rest that is not one yet.
type total struct {
	Units uint64 `json:"units,omitempty"` // not given out yet
	Rest  uint64 `json:"rest,omitempty"`  // below the denominator
}

// add adds level for ns nanoseconds. The product of both stays below 2^64 times
// per for every machine that there is; one beyond is held there.
func (t *total) add(level, ns, per uint64) {
	hi, lo := bits.Mul64(level, ns)
	lo, carry := bits.Add64(lo, t.Rest, 0)
	hi += carry
	if hi >= per {
		hi = per - 1
	}
	var units uint64
	units, t.Rest = bits.Div64(hi, lo, per)
	if t.Units += units; t.Units < units {
		t.Units = ^uint64(0)
	}
}

// take gives out the whole units; the rest stays.
func (t *total) take() uint64 {
	u := t.Units
	t.Units = 0
	return u
}
