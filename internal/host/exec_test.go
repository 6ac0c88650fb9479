package host_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// deaf loses the first answer to a start.
type deaf struct {
	live.Execs
	live.Waiter

	lost atomic.Bool
}

func (d *deaf) Start(ctx context.Context, spec guest.ExecSpec) (guest.ExecStatus, error) {
	st, err := d.Execs.Start(ctx, spec)
	if err == nil && !d.lost.Swap(true) {
		return guest.ExecStatus{}, client.ErrLinkLost
	}
	return st, err
}

// TestEventsOfRetriedStart: the first try started the program and never knew; the
// events are told all the same, once, however often it is tried again.
func TestEventsOfRetriedStart(t *testing.T) {
	for name, tt := range map[string]struct{ id, key string }{"key": {"", "k"}, "id": {"mine", ""}, "both": {"mine", "k"}} {
		t.Run(name, func(t *testing.T) {
			f := hosttest.New(t, func(c *host.Config) {
				open := c.Open
				c.Open = func(cfg reach.Config) (*live.Desktop, error) {
					l, err := open(cfg)
					if err == nil {
						l.Execs = &deaf{Execs: l.Execs, Waiter: l.Execs.(live.Waiter)}
					}
					return l, err
				}
			})
			ctx := patient(t)
			f.Create(api.CreateDesktop{Name: "one"})
			req := api.Exec{ID: tt.id, Argv: []string{"cat"}, Stdin: true}
			if _, err := f.Host.Programs.Start(ctx, project, "one", req, tt.key); !errors.Is(err, client.ErrLinkLost) {
				t.Fatalf("the first try: %v", err)
			}
			var st api.ExecStatus
			for range 3 {
				var err error
				if st, err = f.Host.Programs.Start(ctx, project, "one", req, tt.key); err != nil {
					t.Fatal(err)
				}
			}
			l, err := f.Host.Guest(ctx, project, "one")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Execs.Signal(ctx, guest.ExecID(st.ID), "TERM"); err != nil {
				t.Fatal(err)
			}
			var told []string
			sub := f.Host.Events().Subscribe(event.Filter{Project: project}, 1)
			for !slices.Contains(told, event.TypeExecEnded) {
				e, err := sub.Next(ctx)
				if err != nil {
					t.Fatalf("after %v: %v", told, err)
				}
				if e.Type == event.TypeExecStarted || e.Type == event.TypeExecEnded {
					told = append(told, e.Type)
				}
			}
			if !slices.Equal(told, []string{event.TypeExecStarted, event.TypeExecEnded}) {
				t.Errorf("told %v", told)
			}
		})
	}
}

// listing lists programs when it is let, and tells whose end is waited for.
type listing struct {
	live.Execs
	live.Waiter

	goOn  <-chan struct{}
	asked chan guest.ExecID
}

func (l *listing) List(ctx context.Context) ([]guest.ExecStatus, error) {
	select {
	case <-l.goOn:
		return l.Execs.List(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listing) Wait(ctx context.Context, id guest.ExecID) (guest.ExecStatus, error) {
	l.asked <- id
	return l.Waiter.Wait(ctx, id)
}

// TestNoEventsOfWhatIsWaitedFor: a desktop that is ready looks for programs that
// run in it; one whose caller waits for it already is not taken for one of before.
func TestNoEventsOfWhatIsWaitedFor(t *testing.T) {
	goOn, asked := make(chan struct{}), make(chan guest.ExecID, 10)
	f := hosttest.New(t, func(c *host.Config) {
		open := c.Open
		c.Open = func(cfg reach.Config) (*live.Desktop, error) {
			l, err := open(cfg)
			if err == nil {
				l.Execs = &listing{Execs: l.Execs, Waiter: l.Execs.(live.Waiter), goOn: goOn, asked: asked}
			}
			return l, err
		}
	})
	ctx := patient(t)
	f.Create(api.CreateDesktop{Name: "one", Cold: true})
	dir := t.TempDir()
	ran := make(chan error, 1)
	go func() {
		_, err := f.Host.Programs.Run(ctx, project, "one", api.Exec{Shell: "cd " + dir + "; : > begun; while test ! -e end; do sleep 0.02; done"}, "")
		ran <- err
	}()
	for _, err := os.Stat(dir + "/begun"); err != nil; _, err = os.Stat(dir + "/begun") {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
	l, err := f.Host.Guest(ctx, project, "one")
	if err != nil {
		t.Fatal(err)
	}
	later, err := l.Execs.Start(ctx, guest.ExecSpec{Argv: []string{"cat"}, Stdin: true}) // as one of before
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if id := <-asked; id != later.ID {
		t.Errorf("the end of %s is waited for, want that of %s alone", id, later.ID)
	}
	if err := os.WriteFile(dir+"/end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
