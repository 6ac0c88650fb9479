package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/supervisor"
)

// transport starts a function in place of a process.
type transport struct {
	serve    func(conn net.Conn)
	openErr  error
	closeErr error
	closing  func()

	mu     sync.Mutex
	closes int
	wg     sync.WaitGroup
}

type conn struct {
	net.Conn

	t *transport
}

func (c conn) Close() error {
	c.t.mu.Lock()
	c.t.closes++
	c.t.mu.Unlock()
	if c.t.closing != nil {
		c.t.closing()
	}
	return errors.Join(c.Conn.Close(), c.t.closeErr)
}

func (t *transport) closed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closes
}

func (t *transport) Open(context.Context, session.Scope, session.Lease, session.Process) (io.ReadWriteCloser, error) {
	if t.openErr != nil {
		return nil, t.openErr
	}
	host, inside := net.Pipe()
	t.wg.Go(func() {
		defer inside.Close()
		t.serve(inside)
	})
	return conn{host, t}, nil
}

func harnessRun() session.HarnessRun {
	return session.HarnessRun{
		Tenure: sessiontest.Tenure(1), Lease: session.Lease{Provider: "p", RuntimeID: "r"}, WorkspacePath: session.WorkspacePath,
		Driver: session.Driver{
			Lane: session.Supervised, Protocol: session.SupervisorProtocol, HarnessID: "h", Version: "1", Process: session.Process{Command: "sup"},
			ReadyTimeout: 10 * time.Minute, HeartbeatTimeout: time.Minute, DrainTimeout: 30 * time.Second,
		},
		Checkpoint: func(context.Context, session.LiveCheckpoint) (int64, error) { return 1, nil },
	}
}

// drive runs a harness with a guest in a bubble.
func drive(t *testing.T, serve func(net.Conn), check func(ending session.Ending, err error, took time.Duration), change ...func(*transport, *session.HarnessRun)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{serve: serve}
		r := harnessRun()
		for _, c := range change {
			c(tr, &r)
		}
		began := time.Now()
		ending, err := (&supervisor.Driver{Transport: tr}).Run(t.Context(), r)
		check(ending, err, time.Since(began))
		<-time.After(2 * time.Hour) // what hangs has come back by then
		if tr.openErr == nil && tr.closed() == 0 {
			t.Error("the transport was not closed")
		}
		tr.wg.Wait()
	})
}

// fails wants an error that says what.
func fails(t *testing.T, what string) func(session.Ending, error, time.Duration) {
	t.Helper()
	return func(ending session.Ending, err error, _ time.Duration) {
		if err == nil || ending != "" || !strings.Contains(err.Error(), what) {
			t.Errorf("want a failure with %q, got %q, %v", what, ending, err)
		}
	}
}

// script is a guest that says lines after its start, and keeps what it was told.
type script struct {
	lines []string
	// linger keeps the stream open after the last line, until stop or close.
	linger bool

	mu   sync.Mutex
	told []string
}

func (s *script) serve(c net.Conn) {
	dec := supervisor.NewDecoder[supervisor.Command](c)
	heard := make(chan struct{}, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			cmd, err := dec.Next()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.told = append(s.told, strings.TrimSpace(cmd.Type+" "+cmd.CheckpointID+cmd.RequestID+cmd.Reason))
			s.mu.Unlock()
			heard <- struct{}{}
			if cmd.Type == supervisor.Stop {
				c.Close()
				return
			}
		}
	})
	defer wg.Wait()
	<-heard // start
	for _, line := range s.lines {
		if line == "?" { // wait for a word of the host
			<-heard
			continue
		}
		if _, err := io.WriteString(c, line+"\n"); err != nil {
			return
		}
	}
	if !s.linger {
		c.Close()
	}
}

const (
	ready     = `{"type":"ready","protocol":"openma-harness-supervisor-v1"}`
	beat      = `{"type":"heartbeat","sequence":1}`
	completed = `{"type":"completed","exitCode":0}`
	drained   = `{"type":"drained"}`
	point     = `{"type":"checkpoint","checkpointId":"c1","sessionId":"s-1"}`
)

func TestScripts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines []string
		fails string // empty for completed
		told  []string
	}{
		"completes":                 {[]string{ready, beat, completed, "?", drained}, "", []string{"start", "drain"}},
		"words before ready":        {[]string{beat, point, completed, ready, completed, "?", drained}, "", []string{"start", "drain"}},
		"heartbeat while draining":  {[]string{ready, completed, "?", beat, drained}, "", []string{"start", "drain"}},
		"checkpoint":                {[]string{ready, point, "?", completed, "?", drained}, "", []string{"start", "checkpoint.commit c1", "drain"}},
		"other protocol":            {[]string{`{"type":"ready","protocol":"v2"}`}, "speaks", []string{"start", "stop failed"}},
		"error before ready":        {[]string{`{"type":"error","message":"no disk"}`}, "no disk", []string{"start", "stop failed"}},
		"error":                     {[]string{ready, `{"type":"error","message":"no disk"}`}, "no disk", []string{"start", "stop failed"}},
		"status 7":                  {[]string{ready, `{"type":"completed","exitCode":7}`}, "status 7", []string{"start", "stop failed"}},
		"drained too early":         {[]string{ready, drained}, "drained", []string{"start", "stop failed"}},
		"ready twice":               {[]string{ready, ready}, "ready", []string{"start", "stop failed"}},
		"other session":             {[]string{ready, `{"type":"checkpoint","checkpointId":"c","sessionId":"s-2"}`}, "another session", []string{"start", "stop failed"}},
		"request nobody made":       {[]string{ready, `{"type":"checkpoint","checkpointId":"c","sessionId":"s-1","requestId":"r"}`}, "not open", []string{"start", "stop failed"}},
		"settles no request":        {[]string{ready, `{"type":"checkpoint.committed","requestId":"r"}`}, "not open", []string{"start", "stop failed"}},
		"unknown type":              {[]string{ready, `{"type":"resume"}`}, "unknown type", []string{"start", "stop failed"}},
		"no JSON":                   {[]string{ready, `Killed`}, "no message", []string{"start", "stop failed"}},
		"long line":                 {[]string{ready, strings.Repeat("x", supervisor.MaxLine+1)}, "longer", []string{"start", "stop failed"}},
		"error while draining":      {[]string{ready, completed, "?", `{"type":"error","message":"no disk"}`}, "no disk", []string{"start", "drain", "stop failed"}},
		"checkpoint while draining": {[]string{ready, completed, "?", point}, "belong", []string{"start", "drain", "stop failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{lines: tt.lines, linger: true}
			check := func(ending session.Ending, err error, _ time.Duration) {
				if ending != session.EndingCompleted || err != nil {
					t.Errorf("%q, %v", ending, err)
				}
			}
			if tt.fails != "" {
				check = fails(t, tt.fails)
			}
			drive(t, s.serve, check)
			if diff := cmp.Diff(tt.told, s.told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEarlyEnd: the process ends at any point before it is drained.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	lines := []string{ready, beat, point, "?", completed, "?"}
	for n := range len(lines) + 1 {
		t.Run(fmt.Sprint("after ", n), func(t *testing.T) {
			t.Parallel()
			drive(t, (&script{lines: lines[:n]}).serve, func(ending session.Ending, err error, took time.Duration) {
				if err == nil || ending != "" || took > time.Minute {
					t.Errorf("%q, %v after %s", ending, err, took)
				}
			})
		})
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines []string
		what  string
		after time.Duration
	}{
		"ready":     {[]string{beat}, "ready", 10 * time.Minute},
		"heartbeat": {[]string{ready, beat}, "heartbeat", time.Minute},
		"drained":   {[]string{ready, completed, "?", beat}, "drained", 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive(t, (&script{lines: tt.lines, linger: true}).serve, func(ending session.Ending, err error, took time.Duration) {
				if err == nil || ending != "" || !strings.Contains(err.Error(), tt.what) || took < tt.after || took > tt.after+15*time.Second {
					t.Errorf("%q after %s: %v", ending, took, err)
				}
			})
		})
	}
	t.Run("slow commit is no silence", func(t *testing.T) {
		t.Parallel()
		drive(t, (&script{lines: []string{ready, point, "?", completed, "?", drained}}).serve, func(ending session.Ending, err error, took time.Duration) {
			if err != nil || took != 20*time.Minute {
				t.Errorf("%q after %s: %v", ending, took, err)
			}
		}, func(_ *transport, r *session.HarnessRun) {
			r.Checkpoint = func(context.Context, session.LiveCheckpoint) (int64, error) {
				<-time.After(20 * time.Minute)
				return 1, nil
			}
		})
	})
}

func TestRejectedCommit(t *testing.T) {
	t.Parallel()
	s := &script{lines: []string{ready, point}, linger: true}
	drive(t, s.serve, fails(t, "no space"), func(_ *transport, r *session.HarnessRun) {
		r.Checkpoint = func(context.Context, session.LiveCheckpoint) (int64, error) { return 0, errors.New("no space") }
	})
	if diff := cmp.Diff([]string{"start", "checkpoint.reject c1", "stop failed"}, s.told); diff != "" {
		t.Error(diff)
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{"checkpoint": strings.Replace(point, "c1", "c2", 1), "completed": completed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drive(t, (&script{lines: []string{ready, point, second}, linger: true}).serve, func(ending session.Ending, err error, _ time.Duration) {
				if err == nil || ending != "" {
					t.Errorf("%q, %v", ending, err)
				}
			}, func(_ *transport, r *session.HarnessRun) {
				r.Checkpoint = func(context.Context, session.LiveCheckpoint) (int64, error) {
					<-time.After(time.Second)
					return 1, nil
				}
			})
		})
	}
}
