package stream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// Frame is an encoded picture on its way to a viewer. Its data is shared; do not
// change it.
type Frame struct {
	video.Chunk

	Level  Level
	At     time.Time     // when it was encoded
	Took   time.Duration // to encode it
	Screen uint64        // Seq of the screen's frame that it shows
}

// Bounds of what waits for a viewer.
const (
	queueFrames = 45      // a second and a half of motion
	queueBytes  = 4 << 20 // some keys
)

// Pauses before a key is sent again that a viewer did not confirm, and before one
// that lost pictures gets one. They double.
const (
	repeatAfter = 1500 * time.Millisecond // receivers report about once a second
	repeatMost  = 5
	lostAfter   = keyGap
	lostLongest = 8 * time.Second
)

// Viewer is one that watches a stream.
type Viewer struct {
	stream    *Stream
	codec     video.Codec
	recording bool
	reliable  bool

	mu      sync.Mutex
	notify  chan struct{} // holds a token when there is something for Next
	queue   []Frame
	bytes   int   // of the queue
	err     error // why there will be no more
	kbps    int   // what the way to it carries; 0: unknown
	cur     *seat // where its pictures come from
	coming  *seat // where they will, after the first key
	dropped uint64

	needKey  bool      // it can make nothing of other pictures
	keyFrom  time.Time // when it may have one
	lostGap  time.Duration
	lost     time.Time // when pictures were last lost
	asked    bool      // it asks for a key though it does not need one
	sent     time.Time // when its last key went out
	arrived  bool      // and was confirmed
	repeated int
}

// seat is a viewer's place at a layer.
type seat struct {
	v    *Viewer
	l    *layer
	dead bool // guarded by v.mu; the layer lets go of it
}

// Next waits for a picture. A picture lost for want of time is followed by a key.
func (v *Viewer) Next(ctx context.Context) (Frame, error) {
	for {
		v.mu.Lock()
		if len(v.queue) > 0 {
			f := v.queue[0]
			v.queue[0] = Frame{}
			v.queue = v.queue[1:]
			v.bytes -= len(f.Data)
			v.mu.Unlock()
			return f, nil
		}
		err := v.err
		v.mu.Unlock()
		if err != nil {
			return Frame{}, err
		}
		select {
		case <-v.notify:
		case <-ctx.Done():
			return Frame{}, fmt.Errorf("wait for a picture: %w", ctx.Err())
		}
	}
}

// RequestKey asks for a key: the viewer could not use what it got, or a recording
// begins a chapter. Requests of all viewers within half a second are one.
func (v *Viewer) RequestKey() {
	v.mu.Lock()
	v.asked = true
	v.mu.Unlock()
	v.kick()
}

// Arrived says that the last key has reached the viewer: it is not sent again.
func (v *Viewer) Arrived() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.sent.IsZero() && !v.needKey {
		v.arrived = true
	}
}

// SetBitrate says what the way to the viewer carries, in kbit/s.
func (v *Viewer) SetBitrate(kbps int) {
	v.mu.Lock()
	v.kbps = kbps
	v.mu.Unlock()
	v.kick()
}

// Level is the one that pictures come from, or are going to.
func (v *Viewer) Level() Level {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.coming != nil {
		return v.coming.l.level
	}
	return v.cur.l.level
}

// Dropped is how many pictures were lost because they were not read in time.
func (v *Viewer) Dropped() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dropped
}

// SetLevel moves the viewer to another level. What comes until its first key is
// still of the old one.
func (v *Viewer) SetLevel(ctx context.Context, level Level) error {
	if v.Level() == level {
		return nil
	}
	l, err := v.stream.layerOf(ctx, layerKey{v.codec, level})
	if err != nil {
		return err
	}
	v.mu.Lock()
	if v.coming != nil {
		v.coming.dead = true
		v.coming = nil
	}
	if v.cur.l == l {
		l.release() // back before it was gone
	} else if s := (&seat{v: v, l: l}); l.sit(s) {
		v.coming = s
	} else {
		err = errStopped()
	}
	v.mu.Unlock()
	v.kick()
	return err
}

// Close leaves the stream. It may be called again.
func (v *Viewer) Close() {
	v.end(fmt.Errorf("watch: viewer has left: %w", desktop.ErrDisconnect))
	v.kick()
}

func (v *Viewer) end(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		v.err = err
	}
	v.queue, v.bytes = nil, 0
	for _, s := range []*seat{v.cur, v.coming} {
		if s != nil {
			s.dead = true
		}
	}
	v.tell()
}

// kick makes the layers of the viewer look at it.
func (v *Viewer) kick() {
	v.mu.Lock()
	seats := []*seat{v.cur, v.coming}
	v.mu.Unlock()
	for _, s := range seats {
		if s != nil {
			s.l.wake()
		}
	}
}

// tell wakes Next; v.mu is held.
func (v *Viewer) tell() {
	select {
	case v.notify <- struct{}{}:
	default:
	}
}

// push hands a picture to the viewer that sits at s; false says that it is gone.
// It never waits.
func (s *seat) push(f Frame) bool {
	v := s.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.dead {
		return false
	}
	if s == v.coming {
		if !f.Key {
			return true
		}
		v.cur.dead = true
		v.cur, v.coming = s, nil
		v.arrived, v.repeated, v.sent = v.reliable, 0, time.Time{}
	}
	if f.Key {
		if !v.arrived && !v.sent.IsZero() {
			v.repeated++
		}
		v.needKey, v.asked, v.sent = false, false, f.At
	}
	if v.needKey {
		return true
	}
	if len(v.queue) >= queueFrames || v.bytes+len(f.Data) > queueBytes {
		v.lose(f.At)
		return true
	}
	v.queue, v.bytes = append(v.queue, f), v.bytes+len(f.Data)
	v.tell()
	return true
}

// lose drops what waits: a viewer that is behind goes on with the newest. One that
// keeps falling behind gets its key later and later, since all of its layer get it
// too. v.mu is held.
func (v *Viewer) lose(now time.Time) {
	v.dropped += uint64(len(v.queue) + 1)
	v.queue, v.bytes = nil, 0
	if now.Sub(v.lost) > 4*lostLongest {
		v.lostGap = 0
	}
	v.lostGap = min(max(2*v.lostGap, lostAfter), lostLongest)
	v.lost, v.needKey, v.keyFrom = now, true, now.Add(v.lostGap)
}

// wants is when the viewer at s is to have a key; zero: it needs none. ok is false
// when it is gone.
func (s *seat) wants(now, keyed time.Time) (at time.Time, ok bool) {
	v := s.v
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case s.dead:
		return at, false
	case v.needKey && v.keyFrom.After(now):
		at = v.keyFrom
	case s == v.coming, v.needKey, v.asked:
		at = now
	case !v.arrived && v.repeated < repeatMost:
		at = v.sent.Add(repeatAfter << v.repeated)
	}
	if next := keyed.Add(recordGap); v.recording && (at.IsZero() || next.Before(at)) {
		at = next
	}
	return at, true
}
