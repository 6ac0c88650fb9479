package clipboard

import "time"

// chunk is how many bytes go into a property at once: well below the 256 KiB
// that a request holds on every server.
const chunk = 128 << 10

// stale is when a transfer is given up whose receiver stopped reading.
const stale = 30 * time.Second

// step is what to do next in a transfer.
type step struct {
	data []byte // to put into the property; empty at the end
	put  bool   // whether to
	done bool   // the receiver has all of it
}

// transfer hands out a content bit by bit: each time the receiver deletes the
// property the next bit follows; an empty one tells the end (ICCCM 2.7.2). A
// content below one chunk goes at once, and is done with the first deletion.
type transfer struct {
	rest  []byte
	incr  bool
	ended bool // the empty bit was put
	seen  time.Time
}

// newTransfer starts handing out data; at once says whether it fits.
func newTransfer(data []byte, now time.Time) (t *transfer, atOnce bool) {
	if len(data) <= chunk {
		return &transfer{seen: now}, true
	}
	return &transfer{rest: data, incr: true, seen: now}, false
}

// deleted says what follows the receiver's deletion of the property.
func (t *transfer) deleted(now time.Time) step {
	t.seen = now
	switch {
	case !t.incr, t.ended:
		return step{done: true}
	case len(t.rest) == 0:
		t.ended = true
		return step{put: true}
	}
	n := min(chunk, len(t.rest))
	s := step{data: t.rest[:n], put: true}
	t.rest = t.rest[n:]
	return s
}

// expired says whether the receiver is no longer waited for.
func (t *transfer) expired(now time.Time) bool { return now.Sub(t.seen) > stale }
