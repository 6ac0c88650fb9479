package hosttest

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// NoLeaks fails the test when, at its end and after its other clean-up, a
// goroutine of this project is left that was not there before. Call it first.
func NoLeaks(tb testing.TB) {
	tb.Helper()
	before := len(ours())
	tb.Cleanup(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		deadline := time.After(time.Minute)
		for {
			left := ours()
			if len(left) <= before {
				return
			}
			select {
			case <-tick.C:
			case <-deadline:
				tb.Errorf("%d goroutines left over, e.g.\n%s", len(left)-before, left[len(left)-1])
				return
			}
		}
	})
}

// ours are the stacks of goroutines that run code of this project, save the
// one that asks.
func ours() []string {
	buf := make([]byte, 16<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var list []string
	for _, g := range strings.Split(string(buf), "\n\n")[1:] {
		if strings.Contains(g, "github.com/deskfork/deskfork/internal/") && !strings.Contains(g, "testing.tRunner") {
			list = append(list, g)
		}
	}
	return list
}
