package rtc

import "time"

// Bounds of a way on which packets are late.
const (
	lateAfter = 700 * time.Millisecond
	lossMost  = 13 // of 256
	trailMost = 256
)

// trail remembers the pictures that went out and were not reported yet.
type trail struct {
	ends []end // oldest first
	key  *end  // the last key; nil: none, or it was reported
	lost uint8 // by the last report, of 256
}

// end is the last packet of a picture.
type end struct {
	number uint16
	at     time.Time
}

// sent notes a picture.
func (t *trail) sent(number uint16, key bool, now time.Time) {
	e := end{number, now}
	if len(t.ends) == trailMost {
		t.ends = t.ends[1:]
	}
	t.ends = append(t.ends, e)
	if key {
		t.key = &e
	}
}

// reported notes that packets up to a number have come, but for the share lost; it
// answers whether the last key was among them.
func (t *trail) reported(number uint16, lost uint8) (key bool) {
	come := func(e end) bool { return int16(number-e.number) >= 0 }
	for len(t.ends) > 0 && come(t.ends[0]) {
		t.ends = t.ends[1:]
	}
	t.lost = lost
	key = t.key != nil && come(*t.key)
	if key {
		t.key = nil
	}
	return key
}

// reportGap is how old a report may be by itself.
const reportGap = 1500 * time.Millisecond

// late says that packets are lost, or long underway.
func (t *trail) late(now time.Time) bool {
	return t.lost >= lossMost || (len(t.ends) > 0 && now.Sub(t.ends[0].at) > lateAfter+reportGap)
}
