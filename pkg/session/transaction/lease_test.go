package transaction_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

// works lets the harness work for d, or until it is told to end.
func works(d time.Duration) func(context.Context, session.HarnessRun) (session.Ending, error) {
	return func(ctx context.Context, _ session.HarnessRun) (session.Ending, error) {
		select {
		case <-time.After(d):
			return session.EndingCompleted, nil
		case <-ctx.Done():
			return session.EndingAborted, nil
		}
	}
}

// takes is a hook that takes d, whatever the context says.
func takes(d time.Duration) world.Hook {
	return func(context.Context, int) error {
		<-time.After(d)
		return nil
	}
}

// TestRenewsWhileSlow: before there is a machine, too.
func TestRenewsWhileSlow(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"workspace.materialize", "outputs.prepare", "sandbox.acquire", "harness.run", "workspace.checkpoint", "outputs.finalize"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			in(t, func(_ *testing.T, s *stage) {
				s.Before(call, takes(time.Hour))
				s.want(s.run(), session.Completed, 1)
				if n := s.Count("fences.renew"); n < 119 || n > 121 {
					s.t.Fatalf("%d renewals in an hour", n)
				}
				s.clean()
			})
		})
	}
}

// TestRenewalRetries: a store that is away for less than the lease lasts loses
// nothing.
func TestRenewalRetries(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		began := time.Now()
		s.Before("fences.renew", func(context.Context, int) error {
			if d := time.Since(began); d > 50*time.Second && d < 100*time.Second {
				return errBoom
			}
			return nil
		})
		s.Harness = works(10 * time.Minute)
		s.want(s.run(), session.Completed, 1)
		s.clean()
	})
}

func TestRenewalHangs(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		// Once, whatever its context says.
		s.Before("fences.renew", func(ctx context.Context, n int) error {
			if n == 1 {
				<-time.After(35 * time.Second)
			}
			return nil
		})
		s.Harness = works(10 * time.Minute)
		s.want(s.run(), session.Completed, 1)
	})
}

// TestMargin: a lease that cannot be renewed ends the run before it runs out, so
// that the machine is gone when another host takes over.
func TestMargin(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]world.Hook{"fails": world.Fail(errBoom), "hangs": world.Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				began := time.Now()
				s.Before("fences.renew", hook)
				s.Harness = works(10 * time.Minute)
				s.want(s.run(), session.LeaseLost, 0)
				if took := time.Since(began); took < 70*time.Second || took > 90*time.Second {
					t.Fatalf("the lease of 90 s was given up after %s", took)
				}
				if s.Count("sandbox.terminate") != 1 {
					t.Fatal("the machine was not ended")
				}
				s.clean()
			})
		})
	}
}

func TestStoreSaysLost(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		began := time.Now()
		s.Before("fences.renew", world.Fail(session.ErrLost))
		s.Harness = works(10 * time.Minute)
		s.want(s.run(), session.LeaseLost, 0)
		if took := time.Since(began); took != 30*time.Second {
			t.Fatalf("it took %s", took)
		}
		s.clean()
	})
}

// TestSandboxLost: the provider says that the machine is gone, or nothing for as
// long as a lease lasts.
func TestSandboxLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hook   world.Hook
		within time.Duration
	}{
		"gone":   {world.Fail(session.ErrSandboxLost), 30 * time.Second},
		"silent": {world.Hang, 2 * time.Minute},
		"fails":  {world.Fail(errBoom), 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				began := time.Now()
				s.Before("sandbox.heartbeat", tt.hook)
				s.Harness = works(10 * time.Minute)
				s.want(s.run(), session.LeaseLost, 0)
				if took := time.Since(began); took > tt.within {
					t.Fatalf("it took %s", took)
				}
				s.clean()
			})
		})
	}
	t.Run("one miss is none", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.Before("sandbox.heartbeat", func(_ context.Context, n int) error {
				if n%2 == 1 {
					return errBoom
				}
				return nil
			})
			s.Harness = works(100 * time.Hour)
			res := s.run()
			s.want(res, session.Completed, 1)
			if n := len(res.Warnings.Error()); s.Count("sandbox.heartbeat") < 10_000 || n > 10_000 {
				t.Fatalf("%d heartbeats, warnings of %d bytes", s.Count("sandbox.heartbeat"), n)
			}
		})
	})
}

// TestTakenOver: another host has the session. Nothing of the old holder counts,
// and its machine is gone.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		var next session.Claim
		s.Before("outputs.finalize", func(context.Context, int) error {
			s.memory.Advance(2 * time.Minute)
			var err error
			next, err = s.memory.Stores().Fences.Acquire(t.Context(), s.req.Scope, session.NewClaimant("other"), time.Hour)
			return err
		})
		s.want(s.run(), session.LeaseLost, 0)
		if p := s.published(); p != nil {
			t.Fatalf("a stale holder published %+v", p)
		}
		if err := s.memory.Stores().Fences.Current(t.Context(), next.Fence); err != nil {
			t.Fatalf("a stale holder released its successor's fence: %v", err)
		}
		if leaks := s.Leaks(); len(leaks) > 0 {
			t.Fatal(leaks)
		}
		if s.Count("outputs.abort") != 1 || s.Count("outputs.release") != 0 {
			t.Fatal("outputs of a lost run were released")
		}
	})
}

// TestLostAfterPublish changes nothing: the publication is what counts.
func TestLostAfterPublish(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.Before("sandbox.terminate", func(context.Context, int) error { s.memory.Advance(time.Hour); return nil })
		s.want(s.run(), session.Completed, 1)
	})
}

// TestWedgedHarness: it does not end when told to. The machine is ended under it.
func TestWedgedHarness(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		release := make(chan struct{})
		s.Before("harness.run", world.Wedge(release))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		res, err := s.host.Run(ctx, s.req)
		if err != nil {
			t.Fatal(err)
		}
		s.want(res, session.LeaseLost, 0)
		if took := time.Since(began); took > time.Minute+15*time.Second || !errors.Is(res.Cause, transaction.ErrAbandoned) {
			t.Fatalf("after %s: %v", took, res.Cause)
		}
		if s.Count("sandbox.terminate") != 1 || len(s.Leaks()) > 0 {
			t.Fatalf("the machine was not ended: %v", s.Leaks())
		}
		close(release)
		s.clean()
	})
}

// TestWedgedEverywhere: no port can hold a run that was cancelled.
func TestWedgedEverywhere(t *testing.T) {
	t.Parallel()
	for _, step := range forwards {
		t.Run(step.call, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				release := make(chan struct{})
				s.Before(step.call, world.Wedge(release))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				res, err := s.host.Run(ctx, s.req)
				if err != nil {
					t.Fatal(err)
				}
				// A step that waits for nothing but a deadline of its own may fail
				// first.
				if res.Outcome == session.Completed || time.Since(began) > 2*time.Minute {
					t.Fatalf("%s after %s", res.Outcome, time.Since(began))
				}
				close(release)
				s.clean()
			}, everything)
		})
	}
}

// TestInputLoop: inputs are synchronized while the harness works, and a failure
// ends the run.
func TestInputLoop(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.Harness = works(50 * time.Second)
		s.want(s.run(), session.Completed, 1)
		if len(s.Synchronized) != 4 || s.Synchronized[0] != "w-1:1:session-inputs-synchronize-periodic-1" || s.Synchronized[3] != "w-1:1:session-inputs-synchronize-final" {
			t.Fatalf("synchronized %v", s.Synchronized)
		}
		s.clean()
	}, withInputs)
	t.Run("fails", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.Before("inputs.synchronize", world.Fail(errBoom))
			s.Harness = works(time.Hour)
			began := time.Now()
			res := s.run()
			s.want(res, session.Failed, 0)
			if !errors.Is(res.Cause, errBoom) || time.Since(began) > time.Minute {
				t.Fatalf("after %s: %v", time.Since(began), res.Cause)
			}
			s.clean()
		}, withInputs)
	})
	t.Run("is slow", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.Before("inputs.synchronize", takes(time.Minute))
			s.Harness = works(20 * time.Second)
			s.want(s.run(), session.Completed, 1)
			if len(s.Synchronized) != 2 {
				t.Fatalf("synchronized %v", s.Synchronized)
			}
		}, withInputs)
	})
}

// TestStaleInputs: a holder that is stale changes no inputs, at both ends.
func TestStaleInputs(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"workspace.attach", "harness.run"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.After(at, func(context.Context, int) error { s.memory.Advance(time.Hour); return nil })
				s.want(s.run(), session.LeaseLost, 0)
				if s.Count("inputs.synchronize") > 0 || at == "workspace.attach" && s.Count("inputs.materialize") > 0 {
					t.Fatal("a stale holder touched the inputs")
				}
				s.clean()
			}, withInputs)
		})
	}
}
