package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

const mib = 1 << 20

func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC
}

var sink []byte

// TestCalm: a small heap is collected seldom, and one that holds much as ever.
func TestCalm(t *testing.T) {
	usual := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(usual) })
	runtime.GC()
	Calm(64 * mib)
	before := collections()
	for range 1000 {
		sink = make([]byte, mib)
	}
	if n := collections() - before; n == 0 || n > 40 {
		t.Errorf("%d collections for 1000 MiB of garbage, with a floor of 64", n)
	}
	kept := make([][]byte, 64)
	for i := range kept {
		kept[i] = make([]byte, mib)
	}
	runtime.GC() // its finalizer comes a moment later
	end := time.Now().Add(10 * time.Second)
	for now := 0; now != 100; {
		now = debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		if time.Now().After(end) {
			t.Fatalf("with %d MiB alive the heap may grow by %d %%", len(kept), now)
		}
		runtime.Gosched()
	}
	runtime.KeepAlive(kept)
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		floor, live int64
		want        int
	}{
		{32 * mib, 0, 700}, {32 * mib, 3 * mib, 700}, {32 * mib, 8 * mib, 300}, {32 * mib, 16 * mib, 100}, {32 * mib, 500 * mib, 100},
	} {
		if got := percent(tt.floor, tt.live); got != tt.want {
			t.Errorf("percent(%d MiB, %d MiB) = %d, want %d", tt.floor/mib, tt.live/mib, got, tt.want)
		}
	}
}
