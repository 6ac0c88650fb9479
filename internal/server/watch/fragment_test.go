package watch

import (
	"testing"
)

// FuzzFragment: whatever comes is a bounded list of addresses, or none.
func FuzzFragment(f *testing.F) {
	for _, s := range []string{
		"", "a=ice-ufrag:x\r\n", "m=video 9 x 0\r\na=mid:0\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\n", "a=end-of-candidates", "a=candidate:",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseFragment(text)
		if err == nil && len(got.candidates) > maxCandidates {
			t.Errorf("%d candidates", len(got.candidates))
		}
		if err != nil && len(got.candidates) > 0 {
			t.Error("a fault, and candidates")
		}
	})
}
