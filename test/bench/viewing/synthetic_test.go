//go:build integration

package viewing

import (
	"context"
	"image"
	"image/color"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/internal/server/servertest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/vm/vmtest/screen"
)

// BenchmarkSynthetic is what a page shows of a screen that is drawn here, behind the
// whole product but QEMU: it speaks RFB to the host as QEMU does.
func BenchmarkSynthetic(b *testing.B) {
	const fps, span = 30, 15 * time.Second
	m, err := Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	url, shown := house(b.Context(), b)
	drawing, stop := context.WithCancel(b.Context())
	defer stop()
	drawn, done := map[int]time.Time{}, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second / fps)
		defer tick.Stop()
		for n := 1; ; n++ {
			drawn[n%numbers] = time.Now()
			number(shown, n)
			select {
			case <-tick.C:
			case <-drawing.Done():
				return
			}
		}
	}()
	if _, err := m.Page("synthetic", url); err != nil {
		b.Fatal(err)
	}
	if _, err := m.Look("synthetic", 3*time.Second); err != nil { // to warm up
		b.Fatal(err)
	}
	s, err := m.Look("synthetic", span)
	if err != nil {
		b.Fatal(err)
	}
	stop()
	<-done
	if err := m.Close(); err != nil {
		b.Error(err)
	}
	seen, all := s.Share()
	lags := s.Lags(drawn)
	if len(lags) == 0 {
		b.Fatalf("%d numbers of %d were seen, none of ours", seen, all)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(seen)/span.Seconds(), "shown/s")
	b.ReportMetric(100*float64(seen)/float64(all), "%shown")
	b.ReportMetric(float64(lags[len(lags)/2])/float64(time.Millisecond), "p50-ms")
	b.ReportMetric(float64(lags[len(lags)*95/100])/float64(time.Millisecond), "p95-ms")
}

// number draws what glass.py draws.
func number(s *screen.Screen, n int) {
	bits := n&(numbers-1)<<12 | ^n&(numbers-1)
	img := image.NewRGBA(image.Rect(64, 64, 64+24*16, 64+16))
	for i := range 24 {
		c := color.RGBA{A: 255}
		if bits>>(23-i)&1 == 1 {
			c = color.RGBA{255, 255, 255, 255}
		}
		for y := 64; y < 80; y++ {
			for x := range 16 {
				img.SetRGBA(64+16*i+x, y, c)
			}
		}
	}
	s.Draw(img)
}

// house serves one desktop with a synthetic screen, and returns a link to its page.
func house(ctx context.Context, b *testing.B) (link string, shown *screen.Screen) {
	b.Helper()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	f := hosttest.New(b, func(c *host.Config) {
		c.Images = &hosttest.Images{Display: api.Display{Width: 1280, Height: 800}}
		c.Open = func(cfg reach.Config) (*live.Desktop, error) { return adapter.Opener(cfg) }
	})
	f.Provider.OnBorn(func(m *hosttest.Machine) {
		number(m.Screen(), 0) // a blank screen is none that is drawn
		m.Guest.Desktop.Override(hosttest.DrawnWindows)
	})
	media, err := rtc.Open(ctx, rtc.Config{Listen: "127.0.0.1:0"})
	check(err)
	b.Cleanup(func() { check(media.Close()) })
	url, token := servertest.Serve(b, server.Config{Host: f.Host, Media: media}, nil)
	d := f.Create(api.CreateDesktop{Name: "synthetic"})
	c, err := client.New(url, client.WithToken(token))
	check(err)
	t, err := c.Desktop(d.ID).Tickets().Create(ctx, api.CreateTicket{Kind: api.TicketView, Role: "view"})
	check(err)
	return t.URL, f.Machine(d.ID).Screen()
}
