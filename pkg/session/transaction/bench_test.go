package transaction_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

var errBoom = errors.New("boom")

// stage is one world with a host on it. It lives in a synctest bubble.
type stage struct {
	*world.World

	t      *testing.T
	memory *sessiontest.Memory
	config transaction.Config
	host   *transaction.Host
	req    transaction.Request
}

// in runs f in a bubble, with a host of everything.
func in(t *testing.T, f func(*testing.T, *stage), change ...func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for _, c := range change {
			c(s)
		}
		s.make()
		defer s.host.Wait()
		f(t, s)
	})
}

func newStage(t *testing.T) *stage {
	t.Helper()
	m := sessiontest.NewMemory()
	w := world.New(m.Stores())
	return &stage{
		World: w, t: t, memory: m,
		config: transaction.Config{Name: "host", Ports: transaction.Ports{
			Stores: w.Stores, Sandbox: w.Sandbox(), Workspaces: w.Workspaces(), Outputs: w.Outputs(), Harness: w.Driver(),
			RuntimeCheckpoints: w.RuntimeCheckpoints(), Egress: w.Egress(), Inputs: w.Inputs(),
		}},
		req: transaction.Request{
			Scope: sessiontest.Scope("w-1"),
			Profile: session.Profile{
				Workspace: session.Durable, WorkspaceOrder: []session.WorkspaceStrategy{session.CheckpointRestore}, Outputs: session.OutputsDurable,
				Driver: session.Driver{
					Lane: session.Supervised, Process: session.Process{Command: "sup"}, Protocol: session.SupervisorProtocol, HarnessID: "h", Version: "1",
					ReadyTimeout: time.Minute, HeartbeatTimeout: time.Minute, DrainTimeout: time.Minute,
				},
			},
		},
	}
}

func (s *stage) make() {
	s.t.Helper()
	h, err := transaction.New(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.host = h
}

// Changes of a stage.
func withEgress(s *stage) { s.req.Profile.Egress = session.Required }

func withInputs(s *stage) {
	s.req.Session = &session.Description{ID: "s-1", EnvironmentID: "env", Resources: []session.Resource{{Type: session.ResourceFile, ID: "f", MountPath: "/workspace/f"}}}
}

func withSeal(s *stage) { s.req.Profile.RuntimeCheckpoint = session.Optional }

func retained(s *stage) {
	s.req.Profile.Workspace, s.req.Profile.WorkspaceOrder = session.Continuable, []session.WorkspaceStrategy{session.RetainedRuntime}
}

func withoutOutputs(s *stage) { s.req.Profile.Outputs = session.OutputsDisabled }

func ephemeral(s *stage) {
	s.req.Profile.Workspace, s.req.Profile.WorkspaceOrder = session.EphemeralWork, []session.WorkspaceStrategy{session.Ephemeral}
}

// run is a run whose way down must be in order.
func (s *stage) run() session.Result {
	s.t.Helper()
	res, err := s.host.Run(s.t.Context(), s.req)
	if err != nil {
		s.t.Fatalf("run: %v (%+v)", err, res)
	}
	return res
}

// want compares outcome and revision.
func (s *stage) want(res session.Result, o session.Outcome, revision int64) {
	s.t.Helper()
	if res.Outcome != o || res.Revision != revision {
		s.t.Fatalf("want %s with revision %d, got %s with %d: %v (warnings %v)\ncalls %v", o, revision, res.Outcome, res.Revision, res.Cause, res.Warnings, s.Calls())
	}
	if (res.Cause == nil) != (o == session.Completed) {
		s.t.Fatalf("outcome %s with the cause %v", o, res.Cause)
	}
}

// clean says that nothing is left but what the pointer names, and that the session
// is free.
func (s *stage) clean() {
	s.t.Helper()
	calls := s.Calls()
	s.host.Wait() // what a port gave late is undone
	if leaks := s.Leaks(); len(leaks) > 0 {
		s.t.Fatalf("left behind: %v", leaks)
	}
	if last := calls[len(calls)-1]; last != "fences.release" {
		s.t.Fatalf("the last call is %s", last)
	}
	c, err := s.memory.Stores().Fences.Acquire(context.WithoutCancel(s.t.Context()), s.req.Scope, session.NewClaimant("probe"), time.Minute)
	if err == nil {
		err = s.memory.Stores().Fences.Release(context.WithoutCancel(s.t.Context()), c.Fence)
	}
	if err != nil {
		s.t.Fatalf("the session is not free: %v", err)
	}
}

func (s *stage) published() *session.Publication {
	s.t.Helper()
	p, err := s.memory.Stores().Fences.Published(context.WithoutCancel(s.t.Context()), s.req.Scope)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *stage) backlog() int {
	s.t.Helper()
	b, err := s.memory.Stores().Orphans.Backlog(context.WithoutCancel(s.t.Context()))
	if err != nil {
		s.t.Fatal(err)
	}
	return b.Total
}

// intents are those that recovery would look at.
func (s *stage) intents() []session.Intent {
	s.t.Helper()
	all, _, err := s.memory.Stores().Intents.Abandoned(context.WithoutCancel(s.t.Context()), "", 100)
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *stage) order(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.Calls()); diff != "" {
		s.t.Fatal(diff)
	}
}

// before says whether a was called, and b only after it.
func before(calls []string, a, b string) bool {
	i, j := slices.Index(calls, a), slices.Index(calls, b)
	return i >= 0 && j > i
}

func noCanary(t *testing.T, res session.Result, err error, dump string) {
	t.Helper()
	text := dump
	for _, e := range []error{res.Cause, res.Warnings, err} {
		if e != nil {
			text += e.Error()
		}
	}
	if strings.Contains(text, "canary") {
		t.Fatalf("a secret came through: %s", text)
	}
}
