package transaction_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

// forwards are the steps on the way up, in their order, and what each holds when
// it fails: what must then be called on the way down.
var forwards = []struct {
	call string
	down []string
}{
	{"workspace.materialize", nil},
	{"outputs.prepare", []string{"workspace.release"}},
	{"egress.prepare", []string{"outputs.abort", "workspace.release"}},
	{"intents.begin", []string{"egress.revoke", "outputs.abort", "egress.release", "workspace.release"}},
	{"sandbox.acquire", []string{"egress.revoke", "outputs.abort", "egress.release", "workspace.release"}},
	{"intents.bind", machineDown},
	{"workspace.attach", machineDown},
	{"outputs.attach", machineDown},
	{"egress.attach", machineDown},
	{"inputs.materialize", machineDown},
	{"harness.run", machineDown},
	{"inputs.synchronize", machineDown},
	{"workspace.checkpoint", machineDown},
	{"checkpoints.create", machineDown},
	{"outputs.collect", machineDown},
	{"outputs.finalize", machineDown},
}

var machineDown = []string{"egress.revoke", "sandbox.terminate", "intents.resolve", "outputs.abort", "egress.release", "workspace.release"}

func everything(s *stage) {
	withEgress(s)
	withInputs(s)
	s.req.Profile.RuntimeCheckpoint = session.Required
}

// downs are the calls after the failed one.
func (s *stage) downs(call string) []string {
	calls := s.Calls()
	return calls[slices.Index(calls, call)+1:]
}

func TestFailureMatrix(t *testing.T) {
	t.Parallel()
	for _, step := range forwards {
		t.Run(step.call, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.want(s.run(), session.Completed, 1)
				last := *s.published()
				before := len(s.Calls())
				s.Before("checkpoints.restore", world.Fail(session.ErrNotFound))
				s.Before(step.call, world.Fail(errBoom))
				res := s.run()
				s.want(res, session.Failed, 0)
				if !errors.Is(res.Cause, errBoom) {
					t.Fatalf("cause %v", res.Cause)
				}
				calls := s.Calls()[before:]
				got := calls[slices.Index(calls, step.call)+1:]
				if want := append(slices.Clone(step.down), "fences.release"); !slices.Equal(got, want) {
					t.Fatalf("on the way down\n%v, want\n%v", got, want)
				}
				if p := s.published(); p.Revision != last.Revision || p.Workspace.ID != last.Workspace.ID {
					t.Fatalf("the pointer moved: %+v", p)
				}
				s.clean()
			}, everything)
		})
	}
}

// TestLostAnswers: the step had its effect, its answer did not come. A driver
// undoes; the run goes down as if there had been none.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, step := range forwards {
		t.Run(step.call, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				s.After(step.call, world.Fail(errBoom))
				s.want(s.run(), session.Failed, 0)
				if s.published() != nil {
					t.Fatal("published")
				}
				s.clean()
			}, everything)
		})
	}
}

// aborts are the ways a run is ended from outside while it is at a step.
var aborts = map[string]func(s *stage, cancel context.CancelFunc){
	"cancel": func(_ *stage, cancel context.CancelFunc) { cancel() },
	"lease": func(s *stage, _ context.CancelFunc) {
		s.memory.Advance(time.Hour)
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, over the next renewal
	},
}

// TestAbortAtEveryStep: a step that ends well after the run was aborted counts for
// nothing, and leaves nothing.
func TestAbortAtEveryStep(t *testing.T) {
	t.Parallel()
	for how, abort := range aborts {
		for _, step := range forwards {
			for _, when := range []string{"before", "after"} {
				t.Run(how+" "+when+" "+step.call, func(t *testing.T) {
					t.Parallel()
					in(t, func(t *testing.T, s *stage) {
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						hook := func(context.Context, int) error { abort(s, cancel); return nil }
						if when == "before" {
							s.Before(step.call, hook)
						} else {
							s.After(step.call, hook)
						}
						res, err := s.host.Run(ctx, s.req)
						if err != nil {
							t.Fatal(err)
						}
						s.want(res, session.LeaseLost, 0)
						if s.published() != nil || s.Count("fences.publish") > 0 {
							t.Fatal("an aborted run published")
						}
						if after := s.downs(step.call); slices.Contains(after, "harness.run") {
							t.Fatal("the harness was started in an aborted run")
						}
						s.clean()
					}, everything)
				})
			}
		}
	}
}

// TestAbortRacesPublish: the store decides.
func TestAbortRacesPublish(t *testing.T) {
	t.Parallel()
	for how, abort := range aborts {
		t.Run(how+" before it", func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.Before("fences.publish", func(context.Context, int) error { abort(s, cancel); return nil })
				res, err := s.host.Run(ctx, s.req)
				if err != nil {
					t.Fatal(err)
				}
				if how == "cancel" {
					// The fence is still held: what was asked for is done.
					s.want(res, session.Completed, 1)
				} else {
					s.want(res, session.LeaseLost, 0)
					if s.Count("outputs.abort") != 1 || s.Count("outputs.release") != 0 {
						t.Fatal("outputs of a refused publication were released")
					}
				}
				if (s.published() != nil) != (how == "cancel") {
					t.Fatal("pointer and result differ")
				}
				s.clean()
			}, everything)
		})
		t.Run(how+" after it", func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.After("fences.publish", func(context.Context, int) error { abort(s, cancel); return nil })
				res, err := s.host.Run(ctx, s.req)
				if err != nil {
					t.Fatal(err)
				}
				s.want(res, session.Completed, 1)
				if s.Count("outputs.release") != 1 {
					t.Fatal("published outputs were aborted")
				}
				s.clean()
			}, everything)
		})
	}
}

func TestCancelledBeforeItBegins(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithCancel(t.Context())
		s.After("fences.acquire", func(context.Context, int) error { cancel(); return nil })
		res, err := s.host.Run(ctx, s.req)
		if err != nil {
			t.Fatal(err)
		}
		s.want(res, session.LeaseLost, 0)
		if s.Count("workspace.materialize") != 0 {
			t.Fatal("it began")
		}
		s.clean()
	})
}
