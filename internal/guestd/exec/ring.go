package exec

import (
	"errors"
	"io"
	"sync"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

var errDetached = errors.New("detached")

// ring keeps the newest bytes of one output stream.
type ring struct {
	keep  int  // bytes kept for later clients
	waits bool // whenever nobody is attached the next client is awaited

	mu      sync.Mutex
	cond    sync.Cond // any change below
	store   []byte
	head    int   // store[head:] is what is kept
	base    int64 // stream offset of store[head]
	closed  bool  // no more output comes
	useless bool  // nobody will ever want what comes now
	fresh   bool  // a client is awaited; nothing is dropped meanwhile
	readers map[*reader]struct{}
}

// reader is one attached client's place in a ring.
type reader struct {
	r       *ring
	next    int64 // first byte not yet taken
	sent    int64 // first byte not yet sent
	safe    int64 // bytes below it will not be asked for again by the client
	lag     int64 // bytes that it has read and may ask for again
	stopped bool
}

func newRing(spec guest.ExecSpec) *ring {
	r := &ring{keep: spec.Ring, waits: spec.DetachGrace > 0, fresh: true, readers: map[*reader]struct{}{}}
	r.cond.L = &r.mu
	return r
}

func (r *ring) lenLocked() int { return len(r.store) - r.head }

func (r *ring) totalLocked() int64 { return r.base + int64(r.lenLocked()) }

// write appends p. While clients are attached, or the first one is awaited, it
// waits for room; a client may be behind by what is kept and by one window of bytes
// on their way to it.
func (r *ring) write(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(p) > 0 {
		limit, floor := r.boundsLocked()
		if over := r.lenLocked() + len(p) - limit; over > 0 {
			r.dropLocked(int(min(int64(over), floor-r.base)))
		}
		n := min(len(p), limit-r.lenLocked())
		if r.useless {
			return
		}
		if n <= 0 {
			r.cond.Wait()
			continue
		}
		r.appendLocked(p[:n])
		p = p[n:]
		r.cond.Broadcast()
	}
}

// boundsLocked returns how many bytes may be held, and the offset below which
// they may be dropped.
func (r *ring) boundsLocked() (limit int, floor int64) {
	floor = r.totalLocked()
	if len(r.readers) == 0 {
		if r.fresh {
			floor = r.base
		}
		return r.keep, floor
	}
	for rd := range r.readers {
		floor = min(floor, rd.safe)
	}
	return r.keep + mux.Window, max(floor, r.base)
}

func (r *ring) dropLocked(n int) {
	r.head += n
	r.base += int64(n)
	if r.head == len(r.store) {
		r.store, r.head = r.store[:0], 0
	}
}

func (r *ring) appendLocked(p []byte) {
	if len(r.store)+len(p) > cap(r.store) {
		live := r.store[r.head:]
		room := r.store[:0]
		if need := 2 * (len(live) + len(p)); need > cap(room) {
			room = make([]byte, 0, need)
		}
		r.store, r.head = append(room, live...), 0
	}
	r.store = append(r.store, p...)
}

// finish says that no more output comes.
func (r *ring) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.cond.Broadcast()
}

// abandon ends the waiting for slow clients: what comes now is dropped.
func (r *ring) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.useless = true
	r.cond.Broadcast()
}

// expectNobody ends the waiting for a client: from now on the oldest bytes make room
// while nobody is attached.
func (r *ring) expectNobody() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = false
	r.cond.Broadcast()
}

// span returns the offsets of what is kept.
func (r *ring) span() (kept, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.base, r.totalLocked()
}

// attach places a reader at from, or at the nearest offset that is kept; a
// negative from is the end. lag is how far back the client may come again.
func (r *ring) attach(from, lag int64) *reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from < 0 || from > r.totalLocked() {
		from = r.totalLocked()
	}
	from = max(from, r.base)
	rd := &reader{r: r, next: from, sent: from, safe: from, lag: min(max(lag, 0), int64(r.keep))}
	r.fresh = false
	r.readers[rd] = struct{}{}
	r.cond.Broadcast() // what has waited for a client has room again
	return rd
}

// Read takes the next bytes; io.EOF is the end of the output. It does not
// acknowledge them.
func (rd *reader) Read(p []byte) (int, error) {
	r := rd.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if rd.stopped {
			return 0, errDetached
		}
		if n := r.totalLocked() - rd.next; n > 0 {
			at := r.head + int(rd.next-r.base)
			n := copy(p, r.store[at:])
			rd.next += int64(n)
			return n, nil
		}
		if r.closed {
			return 0, io.EOF
		}
		r.cond.Wait()
	}
}

// passOn says that all bytes that were taken have been sent.
func (rd *reader) passOn() {
	rd.r.mu.Lock()
	defer rd.r.mu.Unlock()
	rd.sent = rd.next
}

// acknowledge says that all but the last unread bytes that were sent have been
// read. It may be called while more are being sent: unread is asked for after it is
// known what was.
func (rd *reader) acknowledge(unread func() int64) {
	rd.r.mu.Lock()
	defer rd.r.mu.Unlock()
	rd.safe = max(rd.safe, rd.sent-unread()-rd.lag)
	rd.r.cond.Broadcast()
}

// settled waits until the output is over or more than limit bytes are there to
// be read; it reports whether it is over.
func (rd *reader) settled(limit int64) bool {
	r := rd.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed && !rd.stopped && r.totalLocked()-rd.next <= limit {
		r.cond.Wait()
	}
	return r.closed && r.totalLocked()-rd.next <= limit
}

// stop wakes whoever reads, for good, and lets go of the ring.
func (rd *reader) stop() {
	r := rd.r
	r.mu.Lock()
	defer r.mu.Unlock()
	rd.stopped = true
	delete(r.readers, rd)
	r.fresh = r.waits && len(r.readers) == 0
	if over := r.lenLocked() - r.keep; over > 0 && len(r.readers) == 0 && !r.fresh {
		r.dropLocked(over)
	}
	r.cond.Broadcast()
}
