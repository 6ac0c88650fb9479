package transaction_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

// downSteps are the steps on the way down of a completed run, and whether their
// failure is an error of Run or only a warning.
var downSteps = map[string]bool{
	"egress.revoke": true, "egress.release": true,
	"sandbox.terminate": false, "intents.resolve": false, "outputs.release": false, "workspace.release": false, "fences.release": false,
}

// TestCleanupFaults: each step of the way down fails or hangs, and all others still
// run, in a bounded time.
func TestCleanupFaults(t *testing.T) {
	t.Parallel()
	for call, isError := range downSteps {
		for name, hook := range map[string]func(chan struct{}) world.Hook{
			"fails":    func(chan struct{}) world.Hook { return world.Fail(errBoom) },
			"hangs":    func(chan struct{}) world.Hook { return world.Hang },
			"is stuck": func(c chan struct{}) world.Hook { return world.Wedge(c) },
		} {
			t.Run(call+" "+name, func(t *testing.T) {
				t.Parallel()
				in(t, func(t *testing.T, s *stage) {
					release := make(chan struct{})
					defer close(release)
					s.Before(call, hook(release))
					began := time.Now()
					res, err := s.host.Run(t.Context(), s.req)
					s.want(res, session.Completed, 1)
					if (err != nil) != isError || (res.Warnings == nil) && !isError {
						t.Fatalf("error %v, warnings %v", err, res.Warnings)
					}
					if took := time.Since(began); took > 41*time.Second {
						t.Fatalf("it took %s", took)
					}
					for step := range downSteps {
						if s.Count(step) != 1 {
							t.Errorf("%s was called %d times", step, s.Count(step))
						}
					}
					if s.published() == nil {
						t.Fatal("the publication is gone")
					}
					want := 0
					if call == "sandbox.terminate" || call == "egress.revoke" {
						want = 1 // the fake's machine does not end under a grant
					}
					if s.backlog() != want {
						t.Fatalf("%d orphans, want %d", s.backlog(), want)
					}
				}, withEgress)
			})
		}
	}
}

// TestOrphan: a machine that does not end is noted, without the token, and can be
// reaped later.
func TestOrphan(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]bool{"completed": false, "failed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.Before("sandbox.terminate", world.Fail(errors.New("qmp hung")))
				if failed {
					s.Before("harness.run", world.Fail(errBoom))
				}
				res := s.run()
				if (res.Outcome == session.Failed) != failed {
					t.Fatal(res)
				}
				all, err := s.memory.Stores().Orphans.Claim(t.Context(), 10, time.Minute)
				if err != nil || len(all) != 1 {
					t.Fatalf("orphans %v, %v", all, err)
				}
				if !strings.Contains(all[0].LastError, "qmp hung") || failed && !strings.Contains(all[0].LastError, "boom") {
					t.Fatalf("last error %q", all[0].LastError)
				}
				if len(s.intents()) != 0 {
					t.Fatal("both intent and orphan")
				}
				if err := s.Sandbox().Reap(t.Context(), s.req.Scope, all[0].Lease, all[0].Reason); err != nil {
					t.Fatal(err)
				}
				if leaks := s.Leaks(); len(leaks) > 0 {
					t.Fatal(leaks)
				}
			})
		})
	}
}

// spy keeps the token of the last claim.
type spy struct {
	session.Fences

	token session.Secret
}

// Acquire implements session.Fences.
func (s *spy) Acquire(ctx context.Context, scope session.Scope, by session.Claimant, ttl time.Duration) (session.Claim, error) {
	s.token = by.Token
	return s.Fences.Acquire(ctx, scope, by, ttl)
}

// TestOrphanHoldsNoToken: even when an error does.
func TestOrphanHoldsNoToken(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		fences := &spy{Fences: s.config.Ports.Stores.Fences}
		s.config.Ports.Stores.Fences = fences
		s.make()
		s.Before("sandbox.terminate", func(context.Context, int) error { return errors.New("x " + fences.token.Reveal()) })
		s.want(s.run(), session.Completed, 1)
		if rows := s.memory.Dump(); s.backlog() != 1 || strings.Contains(rows, fences.token.Reveal()) || !strings.Contains(rows, "[redacted]") {
			t.Fatal(rows)
		}
	})
}

// TestClaimAnswerIsLost: the same claim again is the same fence.
func TestClaimAnswerIsLost(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.After("fences.acquire", func(_ context.Context, n int) error {
			if n == 1 {
				return errBoom
			}
			return nil
		})
		s.want(s.run(), session.Completed, 1)
		if g := s.published().Generation; g != 1 {
			t.Fatalf("generation %d", g)
		}
		s.clean()
	})
}

// TestOrphanCannotBeNoted: it surfaces, after everything else is done, beside the
// first error. The intent stays, so that recovery finds the machine.
func TestOrphanCannotBeNoted(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		stuck, broken := errors.New("stuck"), errors.New("database is away")
		s.Before("sandbox.terminate", world.Fail(stuck))
		s.Before("orphans.enqueue", world.Fail(broken))
		s.Before("harness.run", world.Fail(errBoom))
		res, err := s.host.Run(t.Context(), s.req)
		if !errors.Is(err, stuck) || !errors.Is(err, broken) {
			t.Fatalf("error %v", err)
		}
		s.want(res, session.Failed, 0)
		if !errors.Is(res.Cause, errBoom) {
			t.Fatalf("the first error is masked: %v", res.Cause)
		}
		if s.Count("fences.release") != 1 || s.Count("workspace.release") != 1 || s.Count("outputs.abort") != 1 {
			t.Fatal(s.Calls())
		}
		left := s.intents()
		if len(left) != 1 || left[0].Lease == nil {
			t.Fatalf("intents %+v", left)
		}
	})
}

// TestJoinedFaults: none of several errors of the way down is lost.
func TestJoinedFaults(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		names := []string{"egress.revoke", "egress.release", "orphans.enqueue", "sandbox.terminate", "outputs.abort", "workspace.release", "fences.release"}
		faults := map[string]error{}
		for _, call := range names {
			faults[call] = errors.New("fault of " + call)
			s.Before(call, world.Fail(faults[call]))
		}
		s.Before("harness.run", world.Fail(errBoom))
		res, err := s.host.Run(t.Context(), s.req)
		all := errors.Join(err, res.Cause, res.Warnings)
		for call, fault := range faults {
			if !errors.Is(all, fault) {
				t.Errorf("the error of %s is lost", call)
			}
		}
		if !errors.Is(res.Cause, errBoom) {
			t.Error("the cause is lost")
		}
	}, withEgress)
}

// TestFailedRunKeepsPreviousDisk: under retained_runtime a run that fails, at any
// step, leaves the suspended machine that the pointer names.
func TestFailedRunKeepsPreviousDisk(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"sandbox.acquire", "harness.run", "sandbox.suspend", "egress.revoke", "workspace.checkpoint"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.want(s.run(), session.Completed, 1)
				kept := *s.published().Retained
				s.Before(call, func(_ context.Context, n int) error {
					// Of the second run, on its way up.
					if n == 2 {
						return errBoom
					}
					return nil
				})
				res, err := s.host.Run(t.Context(), s.req)
				if err != nil {
					t.Fatal(err)
				}
				s.want(res, session.Failed, 0)
				if p := s.published(); !p.Retained.Same(kept) || s.Machine(kept.RuntimeID) == nil {
					t.Fatalf("the only copy of the workspace is gone: %+v", p)
				}
				s.clean()
				s.want(s.run(), session.Completed, 2)
			}, retained, withEgress, withoutOutputs)
		})
	}
}

// TestPublishAnswerIsLost: asked again, it is the same revision.
func TestPublishAnswerIsLost(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.After("fences.publish", func(_ context.Context, n int) error {
			if n < 3 {
				return errBoom
			}
			return nil
		})
		s.want(s.run(), session.Completed, 1)
		s.clean()
	})
	t.Run("and the lease with it", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			// Asked again, the store says that the fence is lost; the pointer says
			// that it was not, before.
			s.After("fences.publish", func(context.Context, int) error { s.memory.Advance(time.Hour); return errBoom })
			s.want(s.run(), session.Completed, 1)
			if s.Count("outputs.release") != 1 {
				t.Fatal("published outputs were aborted")
			}
			s.clean()
		})
	})
	t.Run("and never comes", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			// It was taken: the pointer says so.
			s.After("fences.publish", world.Fail(errBoom))
			s.Before("fences.renew", world.Fail(errBoom))
			s.want(s.run(), session.Completed, 1)
			s.clean()
		})
	})
	t.Run("and nobody knows", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.After("fences.publish", world.Fail(errBoom))
			s.Before("fences.renew", world.Fail(errBoom))
			s.Before("fences.published", world.Fail(errBoom))
			res := s.run()
			if res.Outcome == session.Completed || !errors.Is(res.Cause, transaction.ErrPublishUnknown) {
				t.Fatalf("%+v", res)
			}
			// The machine may be what the pointer names, and it is.
			kept := s.published().Retained
			if s.Count("sandbox.terminate") != 0 || s.Machine(kept.RuntimeID) == nil || len(s.intents()) != 1 {
				t.Fatal("the machine was ended")
			}
		}, retained)
	})
	t.Run("and it was not taken", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, s *stage) {
			s.Before("fences.publish", func(context.Context, int) error { return errBoom })
			s.Before("fences.renew", world.Fail(session.ErrLost))
			res := s.run()
			if res.Outcome == session.Completed || s.published() != nil {
				t.Fatalf("%+v", res)
			}
		})
	})
}

// TestNoGrant: an egress that gives nothing.
func TestNoGrant(t *testing.T) {
	t.Parallel()
	for need, want := range map[session.Need]session.Outcome{session.Required: session.Failed, session.Optional: session.Completed} {
		t.Run(string(need), func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.req.Profile.Egress, s.NoGrant = need, true
				if res := s.run(); res.Outcome != want {
					t.Fatal(res)
				}
				if want == session.Failed && s.Count("sandbox.acquire") > 0 {
					t.Fatal("allocated")
				}
				s.clean()
			})
		})
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	for ending, want := range map[session.Ending]session.Outcome{session.EndingAborted: session.LeaseLost, "strange": session.Failed} {
		in(t, func(t *testing.T, s *stage) {
			s.Harness = func(context.Context, session.HarnessRun) (session.Ending, error) { return ending, nil }
			s.want(s.run(), want, 0)
			s.clean()
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*transaction.Config){
		"input interval":      func(c *transaction.Config) { c.InputSync = -1 },
		"checkpoint interval": func(c *transaction.Config) { c.Checkpoints = -1 },
		"ttl":                 func(c *transaction.Config) { c.TTL = time.Second },
		"grace":               func(c *transaction.Config) { c.Grace = time.Minute },
		"no sandbox":          func(c *transaction.Config) { c.Ports.Sandbox = nil },
		"no stores":           func(c *transaction.Config) { c.Ports.Stores = session.Stores{} },
	} {
		s := newStage(t)
		change(&s.config)
		if _, err := transaction.New(s.config); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
