package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// fragile carries connections to address and breaks each after a random number of
// bytes, in the direction that comes to it first. It returns where it listens and
// how many have broken.
func fragile(t *testing.T, address string, seed uint64, most int64) (string, *atomic.Int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	rng, broken := rand.New(rand.NewPCG(seed, 1)), new(atomic.Int64)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				near.Close()
				continue
			}
			budget := new(atomic.Int64)
			budget.Store(2000 + rng.Int64N(most)) // enough for short calls
			carry := func(to, from net.Conn) {
				defer to.Close()
				defer from.Close()
				buf := make([]byte, 4096)
				for {
					n, err := from.Read(buf)
					if err != nil {
						return
					}
					if budget.Add(-int64(n)) < 0 {
						broken.Add(1)
						return
					}
					if _, err := to.Write(buf[:n]); err != nil {
						return
					}
				}
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() }) // also an idle one
			work.Go(func() { carry(far, near) })
			work.Go(func() { carry(near, far) })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); work.Wait() })
	return l.Addr().String(), broken
}

// TestInputOverBrokenLinks: input is byte-exact from the client through the server
// to a program of a real guestd, although the client's connections break anywhere.
func TestInputOverBrokenLinks(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	const size = 6 << 20
	var broken int64
	for seed := range uint64(5) {
		address, cuts := fragile(t, strings.TrimPrefix(d.HTTP.URL, "http://"), seed, 1<<20)
		c, err := client.New("http://"+address, client.WithToken(d.Token), client.WithRetries(5, 5*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), size))
		if err != nil {
			t.Fatal(err)
		}
		var sum bytes.Buffer
		// It reads in bits, so that much is on its way at any time.
		st, err := c.Desktop("one").Execs().Command(t.Context(), api.Exec{Shell: "dd bs=3000 status=none | sha256sum"},
			client.Streams{Stdin: bytes.NewReader(all), Stdout: &sum})
		if err != nil || st.ExitCode != 0 || st.In != size {
			t.Fatalf("seed %d: %+v, %v", seed, st, err)
		}
		if want := fmt.Sprintf("%x  -\n", sha256.Sum256(all)); sum.String() != want {
			t.Errorf("seed %d: sum %q, want %q", seed, sum.String(), want)
		}
		broken += cuts.Load()
	}
	if broken < 10 {
		t.Errorf("only %d connections broke: the test proves little", broken)
	}
}
