package client_test

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// TestOutputAboveLimit: what is too much is cut at the very byte, told, and
// holds the program up in nothing, whichever output it comes on.
func TestOutputAboveLimit(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	const more = client.MaxOutput + 12345
	for _, tt := range []struct {
		name      string
		line      string
		out, err  int // bytes wanted
		truncated bool
	}{
		{"just the limit", fmt.Sprintf("head -c %d /dev/zero", client.MaxOutput), client.MaxOutput, 0, false},
		{"one byte more", fmt.Sprintf("head -c %d /dev/zero", client.MaxOutput+1), client.MaxOutput, 0, true},
		{"standard error", fmt.Sprintf("head -c %d /dev/zero >&2; echo end", more), 4, client.MaxOutput, true},
		{"then the other", fmt.Sprintf("head -c %d /dev/zero; echo end >&2; exit 3", more), client.MaxOutput, 4, true},
		{"both", fmt.Sprintf("head -c %d /dev/zero | tee /dev/stderr", more), client.MaxOutput, client.MaxOutput, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := c.Exec.Run(soon(t), shell(tt.line), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Stdout) != tt.out || len(res.Stderr) != tt.err || res.Truncated != tt.truncated {
				t.Errorf("%d and %d bytes, truncated %t; want %d, %d, %t", len(res.Stdout), len(res.Stderr), res.Truncated, tt.out, tt.err, tt.truncated)
			}
			if res.Status.Running || res.Status.Signal != "" {
				t.Errorf("the program ended with %+v", res.Status)
			}
		})
	}
}

// TestOutputAboveLimitAfterCuts: links that break change nothing in that.
func TestOutputAboveLimitAfterCuts(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := guesttest.Run(t, client.Config{Dial: fragile(g, 5, 6<<20), Token: guesttest.Token})
	const size = 40 << 20
	spec := shell(fmt.Sprintf("yes 0123456 | head -c %d; echo end >&2", size))
	spec.Ring = 64 << 20 // so that nothing is dropped while there is no link
	res, err := c.Exec.Run(soon(t), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(res.Stdout, bytes.Repeat([]byte("0123456\n"), client.MaxOutput/8)) || string(res.Stderr) != "end\n" || !res.Truncated {
		t.Errorf("%d bytes, stderr %q, truncated %t", len(res.Stdout), res.Stderr, res.Truncated)
	}
	if res.Status.Out != size || res.Status.ExitCode != 0 {
		t.Errorf("status %+v", res.Status)
	}
}

// TestMemoryStaysFlat: what is not answered is not held, at either end; both run
// in this process.
func TestMemoryStaysFlat(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	const size = 512 << 20
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most.Store(max(most.Load(), now.HeapAlloc))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	res, err := c.Exec.Run(soon(t), guest.ExecSpec{Argv: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}}, nil)
	close(stop)
	watch.Wait()
	if err != nil || res.Status.Out != size || !res.Truncated || len(res.Stdout) != client.MaxOutput {
		t.Fatalf("%d bytes, truncated %t, %+v, %v", len(res.Stdout), res.Truncated, res.Status, err)
	}
	// The answer, the same while it grows, and what the collector has not seen.
	const allowed = 5 * client.MaxOutput
	if grew := int64(most.Load()) - int64(before.HeapAlloc); grew > allowed {
		t.Errorf("%d MiB of output took %d MiB of memory, more than %d", size>>20, grew>>20, allowed>>20)
	}
}
