package stream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/stream"
)

// TestLadder: down after a second of a slow way or at once with what was lost, up
// again after ten seconds of a good one, and more slowly when that was wrong.
func TestLadder(t *testing.T) {
	for _, tc := range []struct{ name, ways, want string }{
		// A letter is a second: g good (2000 kbit/s), m middling (900), s slow (300),
		// x good but something was not sent; q one that little was sent on (300, not late).
		{"good", "gggggggggggg", "HHHHHHHHHHHH"},
		{"a slow moment", "gsgsgsgs", "HHHHHHHH"},
		{"slow", "gssss", "HHLLL"},
		{"quiet", "gqqqqqqq", "HHHHHHHH"},
		{"not sent", "gxg", "HLL"},
		{"middling is enough to stay", "mmmmmmmmmmmmmm", "HHHHHHHHHHHHHH"},
		{"middling is not enough to rise", "ssmmmmmmmmmmmmmm", "HLLLLLLLLLLLLLLL"},
		{"good again", "ssggggggggggggg", "HLLLLLLLLLLLHHH"},
		{"wrong to rise", "ssgggggggggggss" + strings.Repeat("g", 23), "HLLLLLLLLLLLHHL" + strings.Repeat("L", 20) + "HHH"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l stream.Ladder
			var got strings.Builder
			now, w := time.Unix(1e9, 0), stream.Way{}
			for _, is := range tc.ways {
				w.Kbps = map[rune]int{'g': 2000, 'm': 900, 's': 300, 'q': 300, 'x': 2000}[is]
				w.Late = is == 's'
				if is == 'x' {
					w.Dropped += 10
				}
				letter := "H"
				if l.Step(now, w) == stream.Low {
					letter = "L"
				}
				got.WriteString(letter)
				now = now.Add(time.Second)
			}
			if got.String() != tc.want {
				t.Errorf("%s\n%s, want\n%s", tc.ways, got.String(), tc.want)
			}
		})
	}
}
