package show_test

import (
	"testing"

	"github.com/deskfork/deskfork/internal/cli/show"
)

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		n, most int64
		want    string
	}{
		{0, 10, "    "},
		{-1, 10, "    "},
		{1, 0, "    "},
		{10, 10, "████"},
		{20, 10, "████"},
		{5, 10, "██  "},
		{1, 1 << 60, "▏   "},
		{7, 32, "▉   "},
		{1 << 62, 1 << 62, "████"},
		{9, 32, "█▏  "},
	} {
		if got := show.Bar(tt.n, tt.most, 4); got != tt.want {
			t.Errorf("%d of %d: %q, want %q", tt.n, tt.most, got, tt.want)
		}
	}
}
