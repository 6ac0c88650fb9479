package clipboard

import (
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Chunk is how many bytes go at once.
const Chunk = chunk

// Choose is choose.
var Choose = choose

// Offer returns what a content is offered as: bytes by target.
func Offer(c guest.Clipboard) (map[string]string, error) {
	cs, err := newContents(c)
	out := map[string]string{}
	for _, t := range cs.targets() {
		out[t] = string(cs[t].data)
	}
	return out, err
}

// Receive plays the receiver of data: it deletes the property until all has
// come, and returns the bits.
func Receive(data []byte, most int) (bits [][]byte, atOnce, done bool) {
	now := time.Unix(0, 0)
	t, atOnce := newTransfer(data, now)
	if atOnce {
		bits = append(bits, data)
	}
	for range most {
		s := t.deleted(now)
		if s.put {
			bits = append(bits, s.data)
		}
		if s.done {
			return bits, atOnce, true
		}
	}
	return bits, atOnce, false
}

// Expires says whether a transfer that was last read from since ago is given up.
func Expires(since time.Duration) bool {
	now := time.Unix(1000, 0)
	t, _ := newTransfer(nil, now.Add(-since))
	return t.expired(now)
}
