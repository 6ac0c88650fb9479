package activity_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/activity"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/guest"
)

// slow is a guest whose programs run for a while.
type slow struct{ live.Execs }

func (slow) Run(ctx context.Context, _ guest.ExecSpec, _ io.Reader) (live.Ran, error) {
	select {
	case <-time.After(time.Minute):
		return live.Ran{}, nil
	case <-ctx.Done():
		return live.Ran{}, ctx.Err()
	}
}

// open is a guest whose ports answer.
type open struct{ live.Link }

func (open) Dial(context.Context, int) (net.Conn, error) {
	ours, theirs := net.Pipe()
	return ours, theirs.Close()
}

// refusing fails at once.
type refusing struct{ live.Link }

func (refusing) Dial(context.Context, int) (net.Conn, error) { return nil, errors.New("no") }

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := activity.New(time.Now)
		is := func(what string, after time.Duration, busy bool) {
			t.Helper()
			last, got := m.Last()
			if got != busy || last.Sub(start) != after {
				t.Errorf("%s: last at %s, busy %t; want %s, %t", what, last.Sub(start), got, after, busy)
			}
		}
		l := activity.Track(&live.Desktop{Link: open{}, Execs: slow{}}, m)
		is("at first", 0, false)
		go func() { _, _ = l.Execs.Run(t.Context(), guest.ExecSpec{}, nil) }() // ends in a minute
		<-time.After(30 * time.Second)
		is("while a program runs", 0, true)
		<-time.After(40 * time.Second)
		is("after it", time.Minute, false)
		c, err := l.Link.Dial(t.Context(), 80)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		is("while a connection is open", 70*time.Second, true)
		for range 2 {
			c.Close()
		}
		is("after it was closed twice", 130*time.Second, false)
		l = activity.Track(&live.Desktop{Link: refusing{}}, m)
		if _, err := l.Link.Dial(t.Context(), 80); err == nil {
			t.Error("a refused connection is one")
		}
		is("after a refused one", 130*time.Second, false)
		if _, err := activity.Track(&live.Desktop{Execs: refusesToWait{}}, m).Execs.(live.Waiter).Wait(t.Context(), "x"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a guest that cannot be waited for answers %v", err)
		}
	})
}

type refusesToWait struct{ live.Execs }

type still struct{ live.Screen }

func (still) Shot(context.Context, live.Shot) (live.Picture, error) { return live.Picture{}, nil }

// TestPeek: a glance at a screen is no use, a picture of it is.
func TestPeek(t *testing.T) {
	begun := time.Unix(1000, 0)
	now := begun
	m := activity.New(func() time.Time { return now })
	l := activity.Track(&live.Desktop{Screen: still{}}, m)
	now = now.Add(time.Hour)
	for _, tc := range []struct {
		shot live.Shot
		want time.Time
	}{{live.Shot{Peek: true}, begun}, {live.Shot{}, now}} {
		if _, err := l.Screen.Shot(t.Context(), tc.shot); err != nil {
			t.Fatal(err)
		}
		if last, busy := m.Last(); !last.Equal(tc.want) || busy {
			t.Errorf("after %+v: last used %v, busy %t; want %v", tc.shot, last, busy, tc.want)
		}
	}
}
