package vmnet_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm/vmnet"
)

// noise is size bytes that are the same for one seed.
func noise(seed uint64, size int64) io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return io.LimitReader(rand.NewChaCha8(key), size)
}

func digest(tb testing.TB, r io.Reader) string {
	tb.Helper()
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		tb.Error(err)
	}
	return fmt.Sprintf("%d %x", n, h.Sum(nil))
}

// TestTransfer moves bytes both ways at once over both kinds of connection.
func TestTransfer(t *testing.T) {
	size := int64(100 << 20)
	if raceEnabled || testing.Short() {
		size = 4 << 20
	}
	for _, mtu := range []int{1500, 65520} {
		t.Run(fmt.Sprintf("mtu %d", mtu), func(t *testing.T) {
			far := make(chan string, 2)
			serve := func(c net.Conn) {
				var wg sync.WaitGroup
				wg.Go(func() {
					_, _ = io.Copy(c, noise(1, size))
					_ = c.(closeWriter).CloseWrite()
				})
				far <- digest(t, c)
				wg.Wait()
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			accept(t, ln, serve)
			w := newWire(t)
			n := open(t, w, func(c *vmnet.Config) {
				c.Dialer = world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String()})
			})
			g := boot(t, w, mtu)
			g.serve(7, serve)
			in, err := n.DialContext(within(t, time.Minute), "tcp", ":7")
			if err != nil {
				t.Fatal(err)
			}
			out, err := g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
			if err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]net.Conn{"host to guest": in, "guest to world": out} {
				start := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					_, _ = io.Copy(c, noise(2, size))
					_ = c.(closeWriter).CloseWrite()
				})
				if got, want := digest(t, c), digest(t, noise(1, size)); got != want {
					t.Errorf("%s: near end got %s, want %s", name, got, want)
				}
				if got, want := <-far, digest(t, noise(2, size)); got != want {
					t.Errorf("%s: far end got %s, want %s", name, got, want)
				}
				wg.Wait()
				_ = c.Close()
				t.Logf("%s: %.0f MiB/s each way", name, float64(size)/(1<<20)/time.Since(start).Seconds())
			}
		})
	}
}

// TestManyDials: 1,000 at once in both directions, each its own echo.
func TestManyDials(t *testing.T) {
	const count = 1000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, echo)
	w := newWire(t)
	n := open(t, w, func(c *vmnet.Config) {
		c.MaxTCP = count
		c.Dialer = world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String()})
	})
	g := boot(t, w, 65520)
	g.serve(7, echo)
	for name, dial := range map[string]func() (net.Conn, error){
		"host to guest":  func() (net.Conn, error) { return n.DialContext(within(t, 2*time.Minute), "tcp", ":7") },
		"guest to world": func() (net.Conn, error) { return g.dial(within(t, 2*time.Minute), "tcp", "203.0.113.1:80") },
	} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			for i := range count {
				wg.Go(func() {
					c, err := dial()
					if err != nil {
						t.Errorf("dial %d: %v", i, err)
						return
					}
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
					text := fmt.Sprintf("number %d", i)
					if _, err := io.WriteString(c, text); err != nil {
						t.Errorf("write %d: %v", i, err)
						return
					}
					buf := make([]byte, len(text))
					if _, err := io.ReadFull(c, buf); err != nil || string(buf) != text {
						t.Errorf("echo %d: %q, %v", i, buf, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkThroughput(b *testing.B) {
	for _, mtu := range []int{1500, 9000, 16384, 65520} {
		for _, way := range []string{"to guest", "from guest"} {
			b.Run(fmt.Sprintf("mtu %d %s", mtu, way), func(b *testing.B) {
				w := newWire(b)
				n := open(b, w, func(c *vmnet.Config) { c.MTU = mtu })
				g := boot(b, w, mtu)
				const block = 1 << 20
				g.serve(7, func(c net.Conn) {
					if way == "to guest" {
						_, _ = io.Copy(io.Discard, c)
						_, _ = c.Write([]byte{1})
						return
					}
					buf := make([]byte, block)
					for {
						if _, err := c.Write(buf); err != nil {
							return
						}
					}
				})
				c, err := n.DialContext(within(b, time.Minute), "tcp", ":7")
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				b.SetBytes(block)
				buf := make([]byte, block)
				for b.Loop() {
					if way == "to guest" {
						_, err = c.Write(buf)
					} else {
						_, err = io.ReadFull(c, buf)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	w := newWire(b)
	n := open(b, w, nil)
	g := boot(b, w, 65520)
	g.serve(7, echo)
	c, err := n.DialContext(within(b, time.Minute), "tcp", ":7")
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 100)
	for b.Loop() {
		// Two small writes: what Nagle's algorithm and delayed ACKs would stall.
		if _, err := c.Write(buf[:10]); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Write(buf[10:]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDial(b *testing.B) {
	w := newWire(b)
	n := open(b, w, nil)
	g := boot(b, w, 65520)
	g.serve(7, echo)
	for b.Loop() {
		c, err := n.DialContext(within(b, time.Minute), "tcp", ":7")
		if err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}
