package guest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/supervisor"
	"github.com/deskfork/deskfork/pkg/session/supervisor/guest"
)

// host is the other end, by hand.
type host struct {
	t    *testing.T
	conn net.Conn
	dec  *supervisor.Decoder[supervisor.Event]
	done chan error
}

// with runs a machine in a bubble and talks to it.
func with(t *testing.T, m *guest.Machine, talk func(*host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		conn, inside := net.Pipe()
		m.In, m.Out = inside, inside
		h := &host{t: t, conn: conn, dec: supervisor.NewDecoder[supervisor.Event](conn), done: make(chan error, 1)}
		go func() {
			h.done <- m.Run(t.Context())
			inside.Close()
		}()
		talk(h)
		conn.Close()
		synctest.Wait()
	})
}

func (h *host) say(c supervisor.Command) {
	h.t.Helper()
	if err := supervisor.Encode(h.conn, c); err != nil {
		h.t.Fatalf("say %s: %v", c.Type, err)
	}
}

func (h *host) start() {
	h.t.Helper()
	h.say(supervisor.Command{
		Type: supervisor.Start, Scope: &session.Scope{Workspace: "w", Environment: "e", Session: "s", Work: "k"},
		Harness: &supervisor.Harness{ID: "h", Version: "1"}, WorkspacePath: "/workspace",
	})
	h.hear(supervisor.Ready)
}

// hear waits for an event of a type, over heartbeats.
func (h *host) hear(typ string) supervisor.Event {
	h.t.Helper()
	for {
		e, err := h.dec.Next()
		if err != nil {
			h.t.Fatalf("wait for %s: %v", typ, err)
		}
		if e.Type == typ {
			return e
		}
		if e.Type != supervisor.Heartbeat {
			h.t.Fatalf("want %s, got %+v", typ, e)
		}
	}
}

func (h *host) end() error {
	h.t.Helper()
	return <-h.done
}

func TestBlocksUntilCommit(t *testing.T) {
	t.Parallel()
	var overlap, rejected error
	waited := time.Duration(0)
	m := &guest.Machine{Start: func(ctx context.Context, _ supervisor.Command, h *guest.Harness) (int, error) {
		began := time.Now()
		second := make(chan error, 1)
		go func() {
			<-time.After(time.Second)
			second <- h.Checkpoint(ctx, "b", "")
		}()
		if err := h.Checkpoint(ctx, "a", "t"); err != nil {
			return 1, err
		}
		waited = time.Since(began)
		overlap = <-second
		rejected = h.Checkpoint(ctx, "c", "")
		return 3, nil
	}}
	with(t, m, func(h *host) {
		h.start()
		if e := h.hear(supervisor.Checkpoint); e.CheckpointID != "a" || e.SessionID != "s" || e.TurnID != "t" {
			t.Errorf("checkpoint %+v", e)
		}
		<-time.After(time.Minute)
		h.say(supervisor.Command{Type: supervisor.CheckpointCommit, CheckpointID: "a"})
		h.hear(supervisor.Checkpoint)
		h.say(supervisor.Command{Type: supervisor.CheckpointReject, CheckpointID: "c", Message: "no"})
		if e := h.hear(supervisor.Completed); *e.ExitCode != 3 {
			t.Errorf("completed %+v", e)
		}
		h.say(supervisor.Command{Type: supervisor.Stop, Reason: supervisor.StopFailed})
		if err := h.end(); err != nil {
			t.Error(err)
		}
	})
	if waited < time.Minute || overlap == nil || rejected == nil {
		t.Errorf("waited %s, overlapping: %v, rejected: %v", waited, overlap, rejected)
	}
}

func TestDrainTwice(t *testing.T) {
	t.Parallel()
	drains := 0
	m := &guest.Machine{
		Start: func(context.Context, supervisor.Command, *guest.Harness) (int, error) { return 0, nil },
		Drain: func(context.Context) error { drains++; return nil },
	}
	with(t, m, func(h *host) {
		h.start()
		h.hear(supervisor.Completed)
		for range 2 {
			h.say(supervisor.Command{Type: supervisor.Drain})
			h.hear(supervisor.Drained)
		}
		h.conn.Close()
		if err := h.end(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	if drains != 1 {
		t.Errorf("drained %d times", drains)
	}
}

func TestStopEndsTheHarness(t *testing.T) {
	t.Parallel()
	var cause error
	m := &guest.Machine{Start: func(ctx context.Context, _ supervisor.Command, _ *guest.Harness) (int, error) {
		<-ctx.Done()
		cause = context.Cause(ctx)
		return 0, errors.New("late, and of no interest")
	}}
	with(t, m, func(h *host) {
		h.start()
		h.say(supervisor.Command{Type: supervisor.Stop, Reason: supervisor.StopAborted})
		if err := h.end(); err != nil {
			t.Error(err)
		}
		if e, err := h.dec.Next(); err == nil {
			t.Errorf("it said %+v after stop", e)
		}
	})
	if !errors.Is(cause, guest.ErrStopped) {
		t.Errorf("cause %v", cause)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	failing := func(context.Context, supervisor.Command, *guest.Harness) (int, error) {
		return 0, errors.New("no such harness")
	}
	waiting := func(ctx context.Context, _ supervisor.Command, _ *guest.Harness) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for name, tt := range map[string]struct {
		start func(context.Context, supervisor.Command, *guest.Harness) (int, error)
		say   func(*host)
		want  string
	}{
		"harness": {failing, func(h *host) { h.start() }, "no such harness"},
		"start twice": {waiting, func(h *host) {
			h.start()
			h.say(supervisor.Command{Type: supervisor.Start, Scope: &session.Scope{Workspace: "w", Environment: "e", Session: "s", Work: "k"}, Harness: &supervisor.Harness{ID: "h"}, WorkspacePath: "/w"})
		}, "twice"},
		"commit of nil": {waiting, func(h *host) {
			h.start()
			h.say(supervisor.Command{Type: supervisor.CheckpointCommit, CheckpointID: "x"})
		}, "not open"},
		"bad JSON": {waiting, func(h *host) { h.start(); _, _ = io.WriteString(h.conn, "{\n") }, "no message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with(t, &guest.Machine{Start: tt.start}, func(h *host) {
				tt.say(h)
				if e := h.hear(supervisor.Failure); !strings.Contains(e.Message, tt.want) {
					t.Errorf("it said %q", e.Message)
				}
			})
		})
	}
	t.Run("drain", func(t *testing.T) {
		t.Parallel()
		m := &guest.Machine{Start: waiting, Drain: func(context.Context) error { return errors.New("disk full") }}
		with(t, m, func(h *host) {
			h.start()
			h.say(supervisor.Command{Type: supervisor.Drain})
			if e := h.hear(supervisor.Failure); !strings.Contains(e.Message, "disk full") {
				t.Errorf("it said %q", e.Message)
			}
		})
	})
}
