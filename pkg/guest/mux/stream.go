package mux

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// ErrStopped is what a writer gets when the other end wants no more bytes.
var ErrStopped = errors.New("other end stopped reading")

var errEnded = errors.New("call has ended")

// Stream is a two-way byte stream inside a session. One goroutine may read
// while another writes; neither Read nor Write may be called by two at once.
// Bytes that have arrived are delivered before an error.
type Stream struct {
	s       *Session
	id      uint64
	onReset context.CancelCauseFunc // server's end

	mu       sync.Mutex
	cond     sync.Cond // any change below
	buf      []byte    // buf[head:] has arrived and is unread
	head     int
	owed     int64 // read since the last credit
	inDone   error // no more bytes arrive, and why: io.EOF after a clean end
	outDone  error // no more bytes may be sent, and why
	credit   int64 // bytes that may be sent now
	inflight int64 // bytes sent, not yet known to be read
	onAck    func()
	rlimit   deadline // of reads
	wlimit   deadline // of writes
}

func newStream(s *Session, id uint64) *Stream {
	st := &Stream{s: s, id: id, credit: Window}
	st.cond.L = &st.mu
	return st
}

// take handles what arrived for the stream. It runs in the reading loop.
func (st *Stream) take(f flags, payload []byte) error {
	switch {
	case f&flagReset != 0:
		st.fail(parseReset(payload))
		if st.onReset != nil {
			st.onReset(context.Canceled)
		}
		st.s.forget(st.id)
		return nil
	case f&flagCredit != 0:
		n, err := parseCredit(payload)
		if err != nil {
			return err
		}
		return st.credited(n)
	case f&flagStop != 0:
		st.mu.Lock()
		ack := st.onAck
		st.mu.Unlock()
		if ack != nil {
			defer ack()
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.inDone == nil {
		if int64(len(st.buf)-st.head)+st.owed+int64(len(payload)) > Window {
			return fmt.Errorf("stream %d overran its window: %w", st.id, ErrProtocol)
		}
		if st.head > 0 && len(st.buf)+len(payload) > cap(st.buf) {
			st.buf, st.head = st.buf[:copy(st.buf, st.buf[st.head:])], 0
		}
		st.buf = append(st.buf, payload...)
	}
	if f&flagFin != 0 && st.inDone == nil {
		st.inDone = io.EOF
	}
	if f&flagStop != 0 && st.outDone == nil {
		st.outDone = ErrStopped
	}
	st.cond.Broadcast()
	st.forgetDoneLocked()
	return nil
}

func (st *Stream) credited(n int64) error {
	st.mu.Lock()
	if n > st.inflight {
		st.mu.Unlock()
		return fmt.Errorf("stream %d was given credit for bytes never sent: %w", st.id, ErrProtocol)
	}
	st.credit += n
	st.inflight -= n
	ack := st.onAck
	st.cond.Broadcast()
	st.mu.Unlock()
	if ack != nil {
		ack()
	}
	return nil
}

// forgetDoneLocked takes a stream that is closed both ways out of the session.
func (st *Stream) forgetDoneLocked() {
	if st.inDone != nil && st.outDone != nil {
		st.s.forget(st.id)
	}
}

// fail ends both ways at this end. Bytes that arrived stay readable.
func (st *Stream) fail(err error) { st.settle(err, err) }

func (st *Stream) settle(in, out error) {
	st.mu.Lock()
	if st.inDone == nil {
		st.inDone = in
	}
	if st.outDone == nil {
		st.outDone = out
	}
	st.cond.Broadcast()
	st.mu.Unlock()
}

// Read implements io.Reader.
func (st *Stream) Read(p []byte) (int, error) {
	st.mu.Lock()
	for len(st.buf) == st.head && len(p) > 0 {
		if st.inDone != nil {
			err := st.inDone
			st.mu.Unlock()
			return 0, err
		}
		if st.rlimit.expired() {
			st.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		st.cond.Wait()
	}
	n := copy(p, st.buf[st.head:])
	if st.head += n; st.head == len(st.buf) {
		st.buf, st.head = st.buf[:0], 0
		if cap(st.buf) > 2*chunk || st.inDone != nil {
			st.buf = nil // a stream that idles holds little
		}
	}
	st.owed += int64(n)
	give := st.owed
	if give < Window/2 || st.inDone != nil {
		give = 0
	}
	st.owed -= give
	st.mu.Unlock()
	if give > 0 {
		// A failed write ends the session, and the next Read tells.
		_ = st.send(flagCredit, binary.AppendUvarint(nil, uint64(give)))
	}
	return n, nil
}

// Write implements io.Writer. It waits while the other end's window is full. An empty
// write says whether bytes would still be taken, and may be made beside another.
func (st *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		st.mu.Lock()
		defer st.mu.Unlock()
		return 0, st.outDone
	}
	total := 0
	for len(p) > 0 {
		n, err := st.reserve(len(p))
		if err != nil {
			return total, err
		}
		if err := st.send(0, p[:n]); err != nil {
			return total, err
		}
		total += n
		p = p[n:]
	}
	return total, nil
}

func (st *Stream) reserve(want int) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		switch {
		case st.outDone != nil:
			return 0, st.outDone
		case st.wlimit.expired():
			return 0, os.ErrDeadlineExceeded
		case st.credit > 0:
			n := min(want, chunk, int(st.credit))
			st.credit -= int64(n)
			st.inflight += int64(n)
			return n, nil
		}
		st.cond.Wait()
	}
}

func (st *Stream) send(f flags, payload []byte) error {
	return st.s.write(true, appendHeader(make([]byte, 0, 11), st.id, f), payload)
}

// Unread is how many bytes were written that the other end is not yet known to
// have read; what it has read is told in steps of half a window.
func (st *Stream) Unread() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.inflight
}

// NotifyRead has fn called whenever Unread falls, and when the other end wants no more
// bytes. fn must not wait.
func (st *Stream) NotifyRead(fn func()) {
	st.mu.Lock()
	st.onAck = fn
	st.mu.Unlock()
}

// CloseWrite says that no more bytes will be written; reading goes on.
func (st *Stream) CloseWrite() error {
	if !st.endOut(io.ErrClosedPipe) {
		return nil
	}
	return st.send(flagFin, nil)
}

// CloseRead says that no more bytes are wanted: the other end's writes fail
// with ErrStopped, reads here with io.ErrClosedPipe. They do so too where the end
// had arrived already: a reader whose bytes were dropped must not take it for one.
func (st *Stream) CloseRead() error {
	st.mu.Lock()
	open := st.inDone == nil
	st.inDone = io.ErrClosedPipe
	st.buf, st.head = nil, 0
	st.cond.Broadcast()
	st.forgetDoneLocked()
	st.mu.Unlock()
	if !open {
		return nil
	}
	return st.send(flagStop, nil)
}

// endOut closes the sending way at this end and reports whether it was open.
func (st *Stream) endOut(err error) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.outDone != nil {
		return false
	}
	st.outDone = err
	st.cond.Broadcast()
	st.forgetDoneLocked()
	return true
}

// Reset ends both ways and tells the other end why.
func (st *Stream) Reset(reason error) error {
	st.mu.Lock()
	over := st.inDone != nil && st.outDone != nil
	st.mu.Unlock()
	st.fail(io.ErrClosedPipe)
	st.s.forget(st.id)
	if over {
		return nil
	}
	body, err := json.Marshal(guest.ErrorFrom(reason))
	if err != nil {
		return fmt.Errorf("encode reset: %w", err)
	}
	return st.send(flagReset, body)
}

// Close gives the stream up, both ways. After a clean end of both it says
// nothing to the other end.
func (st *Stream) Close() error { return st.Reset(context.Canceled) }

// end closes what the server's end left open when its call returned.
func (st *Stream) end(err error) {
	if err != nil {
		_ = st.Reset(err) // a failed write ended the session
		return
	}
	st.mu.Lock()
	var f flags
	if st.outDone == nil {
		f |= flagFin
	}
	if st.inDone == nil {
		f |= flagStop
	}
	st.mu.Unlock()
	st.fail(errEnded)
	st.s.forget(st.id)
	if f != 0 {
		_ = st.send(f, nil) // a failed write ended the session
	}
}

// SetReadDeadline makes reads fail with os.ErrDeadlineExceeded from t on.
func (st *Stream) SetReadDeadline(t time.Time) error { st.limit(&st.rlimit, t); return nil }

// SetWriteDeadline makes writes fail with os.ErrDeadlineExceeded from t on.
func (st *Stream) SetWriteDeadline(t time.Time) error { st.limit(&st.wlimit, t); return nil }

func (st *Stream) limit(d *deadline, t time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	*d = deadline{at: t}
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			st.mu.Lock() // a waiter between its check and its wait would miss it
			defer st.mu.Unlock()
			st.cond.Broadcast()
		})
	}
	st.cond.Broadcast()
}

// deadline is one limit of a stream, with what wakes its waiters; guarded by the
// stream's mu.
type deadline struct {
	at    time.Time // zero: none
	timer *time.Timer
}

func (d deadline) expired() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

var _ io.ReadWriteCloser = (*Stream)(nil)

// SetDeadline sets both deadlines.
func (st *Stream) SetDeadline(t time.Time) error {
	st.limit(&st.rlimit, t)
	st.limit(&st.wlimit, t)
	return nil
}
