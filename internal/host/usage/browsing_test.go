package usage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/meter"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// teller is a guest that says what a test lets it say.
type teller struct {
	live.Windows

	asked  int
	states chan bool
	broken chan error
}

func newTeller() *teller { return &teller{states: make(chan bool), broken: make(chan error)} }

// Browsing implements live.Browser.
func (g *teller) Browsing(ctx context.Context, each func(bool)) error {
	g.asked++
	for {
		select {
		case open := <-g.states:
			each(open)
		case err := <-g.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bubbled is a book whose clock is that of a synctest bubble.
func bubbled(t *testing.T) (b *usage.Book, l *billingtest.Memory, stop func()) {
	t.Helper()
	began := time.Now()
	l = billingtest.NewMemory()
	b, stop = open(t, usage.Config{Ledger: l, Clock: func() meter.Instant {
		return meter.Instant{Boot: "b", NS: 1 + int64(time.Since(began)), Wall: time.Now()}
	}})
	return b, l, stop
}

// TestListen: what a guest tells counts; what it has not told does not, and no link
// goes on with what another one has said.
func TestListen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(b *usage.Book, g *teller)
		want int64
	}{
		"a page": {func(_ *usage.Book, g *teller) {
			g.states <- false
			<-time.After(5 * time.Second)
			g.states <- true
			<-time.After(10 * time.Second)
			g.states <- false
			<-time.After(5 * time.Second)
		}, 10},
		"to the end": {func(_ *usage.Book, g *teller) {
			g.states <- true
			<-time.After(10 * time.Second)
		}, 10},
		"told twice": {func(_ *usage.Book, g *teller) {
			g.states <- true
			<-time.After(5 * time.Second)
			g.states <- true
			<-time.After(5 * time.Second)
			g.states <- false
			<-time.After(5 * time.Second)
		}, 10},
		"in a pause": {func(b *usage.Book, g *teller) {
			g.states <- true
			<-time.After(5 * time.Second)
			b.Paused("i1")
			<-time.After(time.Hour)
			b.Resumed("i1")
			<-time.After(5 * time.Second)
		}, 10},
		"a lost link": {func(_ *usage.Book, g *teller) {
			g.states <- true
			<-time.After(5 * time.Second)
			g.broken <- errors.New("lost")
			<-time.After(time.Hour) // nobody says anything
			g.states <- true
			<-time.After(5 * time.Second)
		}, 10},
		"too old": {func(_ *usage.Book, g *teller) {
			g.broken <- &guest.Error{Code: guest.CodeUnsupported}
			<-time.After(time.Hour)
		}, 0},
		"silent": {func(*usage.Book, *teller) { <-time.After(time.Hour) }, 0},
		"after its end": {func(b *usage.Book, g *teller) {
			g.states <- true
			<-time.After(10 * time.Second)
			b.Ended("i1")
			g.states <- false
			g.states <- true
			<-time.After(time.Hour)
		}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, l, stop := bubbled(t)
				b.Started(row("i1"), machine(t, vmtest.New(vmtest.Config{}), "i1"))
				g := newTeller()
				ctx, cancel := context.WithCancel(t.Context())
				var listening sync.WaitGroup
				listening.Go(func() { b.Listen(ctx, "i1", g) })
				c.play(b, g)
				b.Ended("i1")
				cancel()
				listening.Wait()
				stop()
				got := sum(t, l, "i1")
				if got[billing.BrowserActiveSeconds] != c.want {
					t.Errorf("%d s, want %d", got[billing.BrowserActiveSeconds], c.want)
				}
				if _, there := got[billing.BrowserActiveSeconds]; there != (c.want > 0) {
					t.Errorf("rows: %v", got)
				}
				if name == "too old" && g.asked != 1 {
					t.Errorf("asked %d times", g.asked)
				}
			})
		})
	}
}

// TestListenToWhoCannotTell: the parts of a desktop need not have the ability.
func TestListenToWhoCannotTell(t *testing.T) {
	t.Parallel()
	b, stop := open(t, usage.Config{Ledger: billingtest.NewMemory()})
	defer stop()
	b.Listen(t.Context(), "i1", struct{ live.Windows }{})
}

// TestListenIsPaced: a guest that tells all the time is heard ten times a second.
func TestListenIsPaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _, stop := bubbled(t)
		g := newTeller()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		heard := 0
		go func() {
			for ; ctx.Err() == nil; heard++ {
				select {
				case g.states <- heard%2 == 0:
				case <-ctx.Done():
				}
			}
		}()
		b.Listen(ctx, "i1", g)
		synctest.Wait()
		if heard > 110 {
			t.Errorf("heard %d times in 10 s", heard)
		}
		stop()
	})
}
