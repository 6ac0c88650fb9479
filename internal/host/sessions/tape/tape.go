// Package tape is what a run tells: its steps, the output of its command, its end.
// It keeps the last megabytes. Whoever reads it is waited for; what nobody has read
// is dropped when there is too much of it, and readers are told so.
package tape

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

const (
	// Size is how many bytes are kept, with what each event takes besides.
	Size = 8 << 20
	// Chunk is how many bytes of output are in one event at most.
	Chunk = 32 << 10
	// Patience is how long a reader is waited for that takes nothing.
	Patience = 30 * time.Second
)

// Tape is the events of one run. Safe for concurrent use.
type Tape struct {
	now func() time.Time

	mu      sync.Mutex
	events  []api.RunEvent
	first   uint64 // number of events[0]; the first event ever is 1
	bytes   int    // that events weigh
	closed  bool
	readers map[*Reader]bool
	changed chan struct{} // closed and replaced when there is more, or a reader has moved
	anew    bool          // what it was before is gone
}

// anew is the number of the first event of a tape whose beginning is gone. No run tells
// as much before.
const anew = 1 << 40

// New makes an empty tape.
func New(now func() time.Time) *Tape {
	return &Tape{now: now, first: 1, readers: map[*Reader]bool{}, changed: make(chan struct{})}
}

// Again makes the tape of a run of which an earlier process has told something that
// nobody knows any more.
func Again(now func() time.Time) *Tape {
	t := New(now)
	t.first, t.anew = anew, true
	return t
}

// Add adds an event at once; the last one closes the tape.
func (t *Tape) Add(e api.RunEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(e)
}

func (t *Tape) add(e api.RunEvent) {
	if t.closed {
		return
	}
	e.Seq, e.Time = t.first+uint64(len(t.events)), t.now().UTC()
	t.events = append(t.events, e)
	t.bytes += weight(e)
	t.closed = e.Type == api.RunEnd
	t.wake()
}

// weight is what an event takes, in bytes.
func weight(e api.RunEvent) int { return len(e.Data) + 256 }

func (t *Tape) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// Output writes output of one stream. It waits for readers, and never fails but by
// ctx.
func (t *Tape) Output(ctx context.Context, typ api.RunEventType) *Output {
	return &Output{ctx: ctx, tape: t, typ: typ}
}

// Output implements io.Writer.
type Output struct {
	ctx  context.Context // of the run whose output it is
	tape *Tape
	typ  api.RunEventType
}

func (o *Output) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(n+Chunk, len(p))]
		if err := o.tape.put(o.ctx, api.RunEvent{Type: o.typ, Data: append([]byte(nil), part...)}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return len(p), nil
}

// put adds output when there is room for it, which is made when no reader is in the
// way any more.
func (t *Tape) put(ctx context.Context, e api.RunEvent) error {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	for {
		t.mu.Lock()
		if t.room(weight(e)) {
			t.add(e)
			t.mu.Unlock()
			return nil
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
			patience.Reset(Patience)
		case <-patience.C:
			t.cut()
			patience.Reset(Patience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// room drops what all have read until n bytes more are there.
func (t *Tape) room(n int) bool {
	drop := 0
	for freed := 0; t.bytes-freed+n > Size && drop < len(t.events); drop++ {
		seq := t.first + uint64(drop)
		for r := range t.readers {
			if r.next <= seq {
				return false
			}
		}
		freed += weight(t.events[drop])
	}
	for i := range drop {
		t.bytes -= weight(t.events[i])
		t.events[i] = api.RunEvent{}
	}
	t.events = t.events[drop:]
	t.first += uint64(drop)
	return true
}

// cut gives up the readers that are furthest behind.
func (t *Tape) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.readers {
		if r.next <= t.first {
			r.cut = true
			delete(t.readers, r)
		}
	}
	t.wake()
}

// Read begins to read behind the event number after. Close it.
func (t *Tape) Read(after uint64) *Reader {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Reader{tape: t, next: after + 1}
	t.readers[r] = true
	return r
}

// Reader reads a tape in order. It belongs to one goroutine.
type Reader struct {
	tape *Tape
	next uint64 // guarded by tape.mu
	cut  bool   // guarded by tape.mu
}

// Close ends the reading: nobody waits for it any more.
func (r *Reader) Close() {
	r.tape.mu.Lock()
	defer r.tape.mu.Unlock()
	delete(r.tape.readers, r)
	r.tape.wake()
}

// Next waits for the next event; more is false behind the last one.
func (r *Reader) Next(ctx context.Context) (e api.RunEvent, more bool, err error) {
	for {
		e, changed, err := r.poll()
		switch {
		case err != nil:
			return e, false, err
		case changed == nil:
			return e, e.Type != "", nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return e, false, context.Cause(ctx)
		}
	}
}

// poll gives an event; or a channel to wait on; or neither, at the end.
func (r *Reader) poll() (api.RunEvent, <-chan struct{}, error) {
	t := r.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.first + uint64(len(t.events))
	switch {
	case r.cut:
		return api.RunEvent{}, nil, api.Errorf(api.CodeRateLimited, "events were not read for %s; come back with Last-Event-ID", Patience)
	case r.next < t.first:
		what := fmt.Sprintf("%d events with output that nobody read in time", t.first-r.next)
		if t.anew {
			what = "what it had told when the daemon ended"
		}
		r.next = t.first
		return api.RunEvent{Seq: t.first - 1, Time: t.now().UTC(), Type: api.RunLost, Step: what}, nil, nil
	case r.next < end:
		e := t.events[r.next-t.first]
		r.next++
		t.wake()
		return e, nil, nil
	case t.closed:
		return api.RunEvent{}, nil, nil
	}
	return api.RunEvent{}, t.changed, nil
}
