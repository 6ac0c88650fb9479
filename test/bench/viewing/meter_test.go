package viewing

import (
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		name        string
		seen        [][2]float64
		want, drawn int
	}{
		{"nothing", nil, 0, 0},
		{"all", [][2]float64{{5, 0}, {6, 0}, {7, 0}}, 3, 3},
		{"one lost", [][2]float64{{5, 0}, {7, 0}}, 2, 3},
		{"late", [][2]float64{{5, 0}, {7, 0}, {6, 0}, {8, 0}, {7, 0}}, 4, 4},
		{"around the end", [][2]float64{{4094, 0}, {4095, 0}, {1, 0}}, 3, 4},
	} {
		if seen, drawn := (Sample{Seen: tc.seen}).Share(); seen != tc.want || drawn != tc.drawn {
			t.Errorf("%s: %d of %d, want %d of %d", tc.name, seen, drawn, tc.want, tc.drawn)
		}
	}
}

func TestLags(t *testing.T) {
	at := time.UnixMilli(1_000_000)
	s := Sample{Seen: [][2]float64{{1, 1_000_030}, {2, 1_000_050}, {9, 0}}}
	lags := s.Lags(map[int]time.Time{1: at, 2: at.Add(33 * time.Millisecond)})
	if len(lags) != 2 || lags[0] != 17*time.Millisecond || lags[1] != 30*time.Millisecond {
		t.Errorf("lags %v", lags)
	}
}
