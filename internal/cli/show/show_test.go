package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/cli/show"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	show.Table(&out, []string{"NAME", "TITLE"}, []string{"a", "evil\x1b[2J\ttitle\nline\u009b"}, []string{"longer", "ü"})
	want := "NAME     TITLE\na        evil·[2J·title·line·\nlonger   ü\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 59 * time.Second: "59 s", 90 * time.Minute: "90 min", 3 * time.Hour: "3 h", 100 * time.Hour: "4 d",
	} {
		if got := show.Ago(now, now.Add(-d)); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	if got := show.Ago(now, time.Time{}); got != "-" {
		t.Errorf("never: %s", got)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 5 << 50: "5120.0 TiB"} {
		if got := show.Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
