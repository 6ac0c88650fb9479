package stream

import "time"

// Times of the ladder: how long a way must be too slow, and good enough, before its
// viewer moves. The second doubles each time that it was wrong.
const (
	downAfter  = time.Second
	upAfter    = 10 * time.Second
	upLongest  = 2 * time.Minute
	trialPhase = 30 * time.Second // a fall within it says that going up was wrong
)

// Ladder decides which level a viewer gets. It knows no clock; the zero Ladder begins
// at High.
type Ladder struct {
	level   Level
	since   time.Time // when the way began to be other than the level needs; zero: it is not
	moved   time.Time
	patient time.Duration // before it goes up
	dropped uint64
}

// Way is what is known of the way to a viewer.
type Way struct {
	// Kbps is the estimate of what it carries. That of a way on which little is sent
	// may be far too low: it falls to what came through when packets were late once,
	// for whatever reason.
	Kbps int
	// Late says that packets are lost, or long underway.
	Late    bool
	Dropped uint64 // pictures that were not even sent, in all
}

// Step is the level for a viewer on a way.
func (l *Ladder) Step(now time.Time, w Way) Level {
	behind := w.Dropped > l.dropped
	l.dropped = w.Dropped
	floor := High.Floor()
	wrong, after := w.Kbps < floor && w.Late, downAfter
	if l.level == Low {
		l.patient = max(l.patient, upAfter)
		wrong, after = w.Kbps >= floor*3/2 && !w.Late && !behind, l.patient
	} else if behind {
		wrong, after = true, 0
	}
	switch {
	case !wrong:
		l.since = time.Time{}
		return l.level
	case l.since.IsZero():
		l.since = now
	}
	if now.Sub(l.since) < after {
		return l.level
	}
	if l.level == High {
		l.level = Low
		if !l.moved.IsZero() && now.Sub(l.moved) < trialPhase {
			l.patient = min(2*l.patient, upLongest)
		}
	} else {
		l.level = High
	}
	l.since, l.moved = time.Time{}, now
	return l.level
}
