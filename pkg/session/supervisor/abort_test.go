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

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/supervisor"
	"github.com/deskfork/deskfork/pkg/session/supervisor/guest"
)

// TestAbort: whatever the guest is at, and whether or not it listens, the driver
// returns soon, and the process is ended.
func TestAbort(t *testing.T) {
	t.Parallel()
	deaf := func(c net.Conn) { // reads nothing, says nothing
		<-time.After(time.Hour)
	}
	mute := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	babbling := func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for {
			if _, err := io.WriteString(c, ready+"\n"+beat+"\n"); err != nil {
				return
			}
			<-time.After(time.Second)
		}
	}
	for name, serve := range map[string]func(net.Conn){
		"deaf": deaf, "mute": mute, "babbling": babbling,
		"ready":    (&script{lines: []string{ready}, linger: true}).serve,
		"draining": (&script{lines: []string{ready, completed, "?"}, linger: true}).serve,
		"waiting":  (&script{lines: []string{ready, point}, linger: true}).serve,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr := &transport{serve: serve}
				r := harnessRun()
				r.Checkpoint = func(ctx context.Context, _ session.LiveCheckpoint) (int64, error) {
					<-ctx.Done()
					return 0, context.Cause(ctx)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				ending, err := (&supervisor.Driver{Transport: tr}).Run(ctx, r)
				if name == "babbling" || name == "draining" {
					// They may come to their own end first.
					if err == nil && ending != session.EndingAborted {
						t.Errorf("%q, %v", ending, err)
					}
				} else if err != nil || ending != session.EndingAborted {
					t.Errorf("%q, %v", ending, err)
				}
				if took := time.Since(began); took > 25*time.Second {
					t.Errorf("it took %s", took)
				}
				if tr.closed() == 0 {
					t.Error("the process was not ended")
				}
				tr.wg.Wait()
			})
		})
	}
}

func TestTransportFaults(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	good := []string{ready, completed, "?", drained}
	t.Run("open", func(t *testing.T) {
		t.Parallel()
		drive(t, nil, fails(t, "broken"), func(tr *transport, _ *session.HarnessRun) { tr.openErr = broken })
	})
	t.Run("close after success", func(t *testing.T) {
		t.Parallel()
		drive(t, (&script{lines: good}).serve, func(ending session.Ending, err error, _ time.Duration) {
			if err != nil || ending != session.EndingCompleted {
				t.Errorf("%q, %v", ending, err)
			}
		}, func(tr *transport, _ *session.HarnessRun) { tr.closeErr = broken })
	})
	t.Run("close after failure", func(t *testing.T) {
		t.Parallel()
		drive(t, (&script{lines: []string{ready, drained}, linger: true}).serve, func(_ session.Ending, err error, _ time.Duration) {
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), "drained") {
				t.Errorf("one error masks the other: %v", err)
			}
		}, func(tr *transport, _ *session.HarnessRun) { tr.closeErr = broken })
	})
	t.Run("close hangs", func(t *testing.T) {
		t.Parallel()
		drive(t, (&script{lines: good}).serve, func(ending session.Ending, err error, took time.Duration) {
			if err != nil || took > 30*time.Second {
				t.Errorf("%q after %s: %v", ending, took, err)
			}
		}, func(tr *transport, _ *session.HarnessRun) { tr.closing = func() { <-time.After(time.Hour) } })
	})
	t.Run("lane", func(t *testing.T) {
		t.Parallel()
		r := harnessRun()
		r.Driver.Lane = session.AMAWorker
		if _, err := (&supervisor.Driver{}).Run(t.Context(), r); err == nil {
			t.Error("it runs another lane")
		}
	})
}

// machine is a guest of package guest.
func machine(start func(ctx context.Context, h *guest.Harness) (int, error)) func(net.Conn) {
	return func(c net.Conn) {
		m := &guest.Machine{In: c, Out: c, Heartbeat: 10 * time.Second, Start: func(ctx context.Context, _ supervisor.Command, h *guest.Harness) (int, error) {
			return start(ctx, h)
		}}
		_ = m.Run(context.Background())
	}
}

// TestBothEnds: a harness that works for an hour, is asked for checkpoints and
// makes some of its own.
func TestBothEnds(t *testing.T) {
	t.Parallel()
	var got []string
	serve := machine(func(ctx context.Context, h *guest.Harness) (int, error) {
		for turn := range 60 {
			<-time.After(time.Minute)
			if turn%20 == 0 || h.Requested() {
				if err := h.Checkpoint(ctx, fmt.Sprint("c", turn), fmt.Sprint("t", turn)); err != nil {
					return 1, err
				}
			}
		}
		return 0, nil
	})
	var requests sync.WaitGroup
	settled := 0
	drive(t, serve, func(ending session.Ending, err error, took time.Duration) {
		requests.Wait()
		if err != nil || ending != session.EndingCompleted || took < time.Hour {
			t.Errorf("%q after %s: %v", ending, took, err)
		}
		if len(got) < 8 || settled != 6 {
			t.Errorf("checkpoints %v, %d requests settled", got, settled)
		}
	}, func(_ *transport, r *session.HarnessRun) {
		r.Checkpoint = func(_ context.Context, c session.LiveCheckpoint) (int64, error) {
			got = append(got, c.ID+"/"+c.TurnID)
			return int64(len(got)), nil
		}
		r.OnRequester = func(ask func(context.Context, string) error) {
			requests.Go(func() {
				for n := range 6 {
					<-time.After(9 * time.Minute)
					if err := ask(context.Background(), fmt.Sprint("periodic-", n)); err != nil {
						t.Errorf("request %d: %v", n, err)
						return
					}
					settled++
				}
			})
		}
	})
}

// TestRequestsAtTheEnd: a request is settled by completion, and one at a time.
func TestRequestsAtTheEnd(t *testing.T) {
	t.Parallel()
	serve := machine(func(context.Context, *guest.Harness) (int, error) {
		<-time.After(time.Minute)
		return 0, nil
	})
	var requests sync.WaitGroup
	results := make([]error, 3)
	drive(t, serve, func(_ session.Ending, err error, _ time.Duration) {
		requests.Wait()
		if err != nil || results[0] != nil || results[1] == nil || results[2] != nil {
			t.Errorf("%v, requests %v", err, results)
		}
	}, func(_ *transport, r *session.HarnessRun) {
		r.OnRequester = func(ask func(context.Context, string) error) {
			for i := range results {
				requests.Go(func() {
					<-time.After(time.Duration(i*i*20+1) * time.Second) // the last one after the end
					results[i] = ask(context.Background(), fmt.Sprint(i))
				})
			}
		}
	})
}

// TestAbortIsTold: a supervisor that listens hears why it ends.
func TestAbortIsTold(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{"before ready": nil, "ready": {ready}, "draining": {ready, completed, "?"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{lines: lines, linger: true}
				tr := &transport{serve: s.serve}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				ending, err := (&supervisor.Driver{Transport: tr}).Run(ctx, harnessRun())
				if err != nil || ending != session.EndingAborted {
					t.Errorf("%q, %v", ending, err)
				}
				tr.wg.Wait()
				if len(s.told) == 0 || s.told[len(s.told)-1] != "stop aborted" {
					t.Errorf("it was told %v", s.told)
				}
			})
		})
	}
}
