package stream

import (
	"image"
	"time"
)

// Times of the pace.
const (
	keyGap    = 500 * time.Millisecond // between keys that viewers ask for
	restAfter = 300 * time.Millisecond // without a change: the screen is still
	refineGap = 100 * time.Millisecond // between steps to a sharp picture
	aliveGap  = time.Second            // between pictures of a still screen
	// recordGap is between keys of a recording: how far a player has to go back.
	recordGap = 10 * time.Second
)

// refineBits is about what a sharp block takes, in bits.
const refineBits = areaSide * areaSide * 3 / 4

// step is what a layer does next.
type step int

const (
	stepWait   step = iota
	stepChange      // encode what has changed
	stepRefine      // encode what is coarse
	stepAlive       // encode that nothing has changed
	stepKey         // encode everything
)

// pace decides when a layer encodes. It knows no clock.
type pace struct {
	interval time.Duration // between changes
	any      bool          // there is a frame
	fresh    bool          // there is one that was not encoded
	encoded  time.Time     // when a picture was encoded last
	changed  time.Time     // when one with a change was
	keyed    time.Time     // when a key was
	coarse   area
}

// forever is longer than anybody waits.
const forever = time.Hour

// next is what to do now or, for stepWait, how long to wait for it; key is when a
// key is wanted, zero: none is.
func (p *pace) next(now, key time.Time) (step, time.Duration) {
	if !p.any {
		return stepWait, forever
	}
	wait := forever
	due := func(at time.Time) bool {
		left := at.Sub(now)
		wait = min(wait, left)
		return left <= 0
	}
	later := func(a, b time.Time) time.Time {
		if a.After(b) {
			return a
		}
		return b
	}
	switch {
	case !key.IsZero() && due(later(key, p.keyed.Add(keyGap))):
		return stepKey, 0
	case p.fresh && due(p.encoded.Add(p.interval)):
		return stepChange, 0
	case p.fresh: // soon
	case p.coarse.left > 0 && due(later(p.changed.Add(restAfter), p.encoded.Add(refineGap))):
		return stepRefine, 0
	case due(p.encoded.Add(aliveGap)):
		return stepAlive, 0
	}
	return stepWait, wait
}

// done notes that a step was taken.
func (p *pace) done(s step, now time.Time, size image.Point, changed []image.Rectangle) {
	p.encoded = now
	if s == stepKey {
		p.keyed = now
		p.coarse.reset(size)
		p.coarse.add(image.Rectangle{Max: size})
	} else {
		p.coarse.add(changed...)
	}
	if p.fresh {
		p.changed, p.fresh = now, false
	}
}

// refine takes what the next step to a sharp picture is about, at so many kbit/s.
func (p *pace) refine(kbps int) []image.Rectangle {
	bits := kbps * int(refineGap/time.Millisecond)
	return p.coarse.take(max(bits/refineBits, 1))
}
