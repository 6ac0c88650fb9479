package transaction_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

func TestHappyOrder(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		s.order("fences.acquire", "workspace.materialize", "outputs.prepare", "intents.begin", "sandbox.acquire", "intents.bind",
			"workspace.attach", "outputs.attach", "harness.run", "workspace.checkpoint", "outputs.collect", "outputs.finalize",
			"fences.publish", "sandbox.terminate", "intents.resolve", "outputs.release", "workspace.release", "fences.release")
		s.clean()
	})
}

func TestOrderWithEverything(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		s.order("fences.acquire", "workspace.materialize", "outputs.prepare", "egress.prepare", "intents.begin", "sandbox.acquire", "intents.bind",
			"workspace.attach", "outputs.attach", "egress.attach", "inputs.materialize", "harness.run", "inputs.synchronize",
			"workspace.checkpoint", "checkpoints.create", "outputs.collect", "outputs.finalize", "fences.publish",
			"egress.revoke", "sandbox.terminate", "intents.resolve", "outputs.release", "egress.release", "workspace.release", "fences.release")
		if diff := cmp.Diff([]string{"w-1:1:session-inputs-synchronize-final"}, s.Synchronized); diff != "" {
			t.Fatal(diff)
		}
		s.clean()
	}, withEgress, withInputs, withSeal)
}

func TestOrderOfRetainedRuntime(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		// The grant is taken back before the publication, and the machine stays.
		s.order("fences.acquire", "workspace.materialize", "egress.prepare", "intents.begin", "sandbox.acquire", "intents.bind",
			"workspace.attach", "egress.attach", "harness.run", "sandbox.suspend", "intents.bind", "egress.revoke", "workspace.checkpoint",
			"fences.publish", "egress.release", "workspace.release", "fences.release")
		s.clean()
		kept := s.published().Retained
		if kept == nil || s.Machine(kept.RuntimeID) == nil {
			t.Fatalf("the pointer names %+v", kept)
		}
		// The next work item resumes it under a new incarnation.
		s.req.Scope.Work = "w-2"
		s.want(s.run(), session.Completed, 2)
		if next := s.published().Retained; next.Same(*kept) {
			t.Fatal("an incarnation was used twice")
		}
	}, retained, withEgress, withoutOutputs)
}

// TestNextGeneration: it gets the last candidate, of another work item too.
func TestNextGeneration(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		first := s.published().Workspace
		s.req.Scope.Work = "w-2"
		s.want(s.run(), session.Completed, 2)
		p := s.published()
		if p.Generation != 2 || p.Workspace.ID == first.ID || p.Workspace.Metadata["key"] != "w-2:2:workspace-checkpoint" {
			t.Fatalf("published %+v", p)
		}
		// A published checkpoint that is gone is never an empty workspace.
		s.Forget(p.Workspace.ID)
		res := s.run()
		s.want(res, session.Failed, 0)
		if s.Count("sandbox.acquire") != 2 || s.published().Workspace.ID != p.Workspace.ID {
			t.Fatal("it went on without its workspace")
		}
		s.clean()
	})
}

func TestConflict(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		if _, err := s.memory.Stores().Fences.Acquire(t.Context(), s.req.Scope, session.NewClaimant("other"), time.Minute); err != nil {
			t.Fatal(err)
		}
		res := s.run()
		s.want(res, session.Conflict, 0)
		if res.RetryAfter != time.Minute {
			t.Fatalf("retry after %s", res.RetryAfter)
		}
		s.order("fences.acquire")
	})
}

// TestOwnerIsUnique: two runs of one host at the same time do not share a fence.
func TestOwnerIsUnique(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.Harness = func(context.Context, session.HarnessRun) (session.Ending, error) {
			s.Harness = nil
			s.want(s.run(), session.Conflict, 0)
			return session.EndingCompleted, nil
		}
		s.want(s.run(), session.Completed, 1)
	})
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*stage){
		"workspace":          func(s *stage) { s.Live.Workspace = nil },
		"outputs":            func(s *stage) { s.Live.Outputs = nil },
		"harness":            func(s *stage) { s.Live.Harness = nil },
		"runtime checkpoint": func(s *stage) { withSeal(s); s.config.Ports.RuntimeCheckpoints = nil },
		"required checkpoint": func(s *stage) {
			s.req.Profile.RuntimeCheckpoint = session.Required
			s.Live.Sandbox.RuntimeCheckpoints = nil
		},
		"egress port":           func(s *stage) { withEgress(s); s.config.Ports.Egress = nil },
		"egress is advisory":    func(s *stage) { withEgress(s); s.EgressCan.Enforcement = session.EgressAdvisory },
		"egress is unsupported": func(s *stage) { withEgress(s); s.EgressCan.Enforcement = session.EgressUnsupported },
		"inputs port":           func(s *stage) { withInputs(s); s.config.Ports.Inputs = nil },
		"repository needs egress": func(s *stage) {
			withInputs(s)
			s.req.Session.Resources[0].Type = session.ResourceRepository
			s.config.Ports.Egress = nil
		},
		"scope":                      func(s *stage) { s.req.Scope.Work = "" },
		"other session":              func(s *stage) { withInputs(s); s.req.Session.ID = "s-2" },
		"drift":                      func(s *stage) { s.config.Advertised = &session.Capabilities{} },
		"periodic for direct worker": func(s *stage) { s.config.Checkpoints = time.Minute; s.req.Profile.Driver.Lane = session.AMAWorker },
		"periodic for a mount": func(s *stage) {
			s.config.Checkpoints = time.Minute
			s.req.Profile.WorkspaceOrder = []session.WorkspaceStrategy{session.DurableMount}
		},
		"capabilities fail": func(s *stage) { s.Before("outputs.strategies", world.Fail(errBoom)) },
		"capabilities hang": func(s *stage) { s.Before("harness.lanes", world.Hang) },
		"fence fails":       func(s *stage) { s.Before("fences.acquire", world.Fail(errBoom)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) {
				res, err := s.host.Run(t.Context(), s.req)
				if err == nil || res.Outcome != "" {
					t.Fatalf("admitted: %+v, %v", res, err)
				}
				for _, call := range s.Calls() {
					if call != "fences.acquire" || name != "fence fails" {
						t.Fatalf("allocated before it was admitted: %v", s.Calls())
					}
				}
			}, change)
		})
	}
}

// TestForcedEgress: a repository makes egress required.
func TestForcedEgress(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		if calls := s.Calls(); !before(calls, "egress.attach", "harness.run") || !before(calls, "egress.revoke", "sandbox.terminate") {
			t.Fatal(calls)
		}
	}, withInputs, func(s *stage) { s.req.Session.Resources[0].Type = session.ResourceRepository })
}

// TestEphemeral: a run that keeps nothing does not make the session forget what it
// has.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		first := *s.published()
		ephemeral(s)
		withoutOutputs(s)
		s.want(s.run(), session.Completed, 2)
		p := s.published()
		if p.Workspace.ID != first.Workspace.ID || p.Output == nil || p.Output.ID != first.Output.ID {
			t.Fatalf("before %+v, now %+v", first, p)
		}
		s.clean()
	})
}

// TestRetainedWorkspaceElsewhere: a workspace in a suspended machine is not
// restored by another strategy, and the pointer stays.
func TestRetainedWorkspaceElsewhere(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, s *stage) {
		s.want(s.run(), session.Completed, 1)
		kept := s.published().Retained
		s.req.Profile.WorkspaceOrder = []session.WorkspaceStrategy{session.CheckpointRestore}
		s.want(s.run(), session.Failed, 0)
		if s.Count("sandbox.acquire") != 1 || !s.published().Retained.Same(*kept) || s.Machine(kept.RuntimeID) == nil {
			t.Fatal("the workspace was lost")
		}
		// Nor does a run that keeps nothing lose it.
		ephemeral(s)
		s.want(s.run(), session.Completed, 2)
		if !s.published().Retained.Same(*kept) || s.Machine(kept.RuntimeID) == nil {
			t.Fatal("the workspace was lost")
		}
	}, retained)
}
