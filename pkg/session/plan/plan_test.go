package plan_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/plan"
)

// rich has everything.
func rich() plan.Request {
	return plan.Request{
		Profile: session.Profile{
			Workspace: session.Durable,
			Driver:    session.Driver{Lane: session.AMAWorker, Process: session.Process{Command: "worker"}},
		},
		Live: session.Capabilities{
			Sandbox:   session.SandboxCapabilities{SuspendResume: true, HardTerminate: true, RuntimeCheckpoints: []session.CheckpointKind{session.CheckpointFilesystem, session.CheckpointProcess}},
			Workspace: []session.WorkspaceStrategy{session.Ephemeral, session.RetainedRuntime, session.CheckpointRestore, session.DurableMount},
			Outputs:   []session.OutputCapability{{Strategy: session.OutputsCollect, Durable: true}, {Strategy: session.OutputsWatch}},
			Harness:   []session.Lane{session.AMAWorker, session.Supervised},
		},
		Egress:    &session.EgressCapabilities{Enforcement: session.EgressEnforced},
		HasInputs: true, HasRuntimeCheckpoints: true,
	}
}

func supervised() session.Driver {
	return session.Driver{
		Lane: session.Supervised, Process: session.Process{Command: "sup"}, Protocol: session.SupervisorProtocol,
		HarnessID: "h", Version: "1", ReadyTimeout: time.Second, HeartbeatTimeout: time.Second, DrainTimeout: time.Second,
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	only := func(s ...session.WorkspaceStrategy) func(*plan.Request) {
		return func(r *plan.Request) { r.Live.Workspace = s }
	}
	all := func(f ...func(*plan.Request)) func(*plan.Request) {
		return func(r *plan.Request) {
			for _, g := range f {
				g(r)
			}
		}
	}
	promise := func(d session.Durability, order ...session.WorkspaceStrategy) func(*plan.Request) {
		return func(r *plan.Request) { r.Profile.Workspace, r.Profile.WorkspaceOrder = d, order }
	}
	out := func(m session.OutputMode, order ...session.OutputStrategy) func(*plan.Request) {
		return func(r *plan.Request) { r.Profile.Outputs, r.Profile.OutputOrder = m, order }
	}
	resource := func(kind string) func(*plan.Request) {
		return func(r *plan.Request) { r.Resources = append(r.Resources, session.Resource{Type: kind}) }
	}
	noInputs := func(r *plan.Request) { r.HasInputs = false }
	driver := func(change func(*session.Driver)) func(*plan.Request) {
		return func(r *plan.Request) {
			r.Profile.Driver = supervised()
			change(&r.Profile.Driver)
		}
	}
	enforcement := func(need session.Need, e session.Enforcement) func(*plan.Request) {
		return func(r *plan.Request) {
			r.Profile.Egress, r.Egress = need, nil
			if e != "" {
				r.Egress = &session.EgressCapabilities{Enforcement: e}
			}
		}
	}
	checkpoints := func(need session.Need, port bool, kinds ...session.CheckpointKind) func(*plan.Request) {
		return func(r *plan.Request) {
			r.Profile.RuntimeCheckpoint, r.HasRuntimeCheckpoints, r.Live.Sandbox.RuntimeCheckpoints = need, port, kinds
		}
	}
	portable := func(live bool) func(*plan.Request) {
		return func(r *plan.Request) {
			r.Profile.PortableCheckpoint, r.Live.Sandbox.PortableCheckpoints = true, live
		}
	}
	type want struct {
		workspace session.WorkspaceStrategy
		outputs   session.OutputStrategy
		kind      session.CheckpointKind
		egress    session.Need
		fails     string // part
	}
	mount := want{workspace: session.DurableMount}
	for name, tt := range map[string]struct {
		change func(*plan.Request)
		want   want
	}{
		"durable prefers the mount":            {all(), mount},
		"durable takes checkpoints":            {only(session.RetainedRuntime, session.CheckpointRestore), want{workspace: session.CheckpointRestore}},
		"durable never retains":                {only(session.RetainedRuntime, session.Ephemeral), want{fails: "workspace"}},
		"durable never retains when asked to":  {promise(session.Durable, session.RetainedRuntime), want{fails: "workspace"}},
		"continuable retains last":             {all(promise(session.Continuable), only(session.RetainedRuntime)), want{workspace: session.RetainedRuntime}},
		"continuable prefers checkpoints":      {all(promise(session.Continuable), only(session.RetainedRuntime, session.CheckpointRestore)), want{workspace: session.CheckpointRestore}},
		"preference counts":                    {promise(session.Continuable, session.RetainedRuntime, session.CheckpointRestore), want{workspace: session.RetainedRuntime}},
		"preference is all there is":           {all(promise(session.Continuable, session.DurableMount), only(session.CheckpointRestore)), want{fails: "workspace"}},
		"retained needs suspend":               {all(promise(session.Continuable), only(session.RetainedRuntime), func(r *plan.Request) { r.Live.Sandbox.SuspendResume = false }), want{fails: "workspace"}},
		"ephemeral":                            {all(promise(session.EphemeralWork), only(session.Ephemeral)), want{workspace: session.Ephemeral}},
		"continuable is never ephemeral":       {all(promise(session.Continuable), only(session.Ephemeral)), want{fails: "workspace"}},
		"unknown durability":                   {promise("forever"), want{fails: "workspace"}},
		"durable outputs":                      {out(session.OutputsDurable), want{workspace: session.DurableMount, outputs: session.OutputsCollect}},
		"best effort outputs":                  {out(session.OutputsBestEffort), want{workspace: session.DurableMount, outputs: session.OutputsWatch}},
		"durable outputs by best effort":       {out(session.OutputsDurable, session.OutputsWatch), want{fails: "outputs"}},
		"no such outputs":                      {out(session.OutputsBestEffort, session.OutputsMount), want{fails: "outputs"}},
		"unknown output mode":                  {out("some"), want{fails: "outputs"}},
		"process checkpoints first":            {checkpoints(session.Required, true, session.CheckpointFilesystem, session.CheckpointProcess), want{workspace: session.DurableMount, kind: session.CheckpointProcess}},
		"file system checkpoints":              {checkpoints(session.Optional, true, session.CheckpointFilesystem), want{workspace: session.DurableMount, kind: session.CheckpointFilesystem}},
		"optional checkpoint, none made":       {checkpoints(session.Optional, true), mount},
		"required checkpoint, none made":       {checkpoints(session.Required, true), want{fails: "runtime checkpoint"}},
		"advertised checkpoint without a port": {checkpoints(session.Optional, false, session.CheckpointProcess), want{fails: "runtime checkpoint"}},
		"no checkpoint wanted, no port":        {checkpoints(session.Disabled, false, session.CheckpointProcess), mount},
		"unknown checkpoint need":              {checkpoints("maybe", true), want{fails: "runtime checkpoint"}},
		"portable checkpoint":                  {all(checkpoints(session.Required, true, session.CheckpointProcess), portable(true)), want{workspace: session.DurableMount, kind: session.CheckpointProcess}},
		"portable checkpoint that stays":       {all(checkpoints(session.Required, true, session.CheckpointProcess), portable(false)), want{fails: "runtime checkpoint"}},
		"lane is missing":                      {func(r *plan.Request) { r.Live.Harness = []session.Lane{session.Supervised} }, want{fails: "harness"}},
		"supervised":                           {driver(func(*session.Driver) {}), mount},
		"protocol":                             {driver(func(d *session.Driver) { d.Protocol = "v2" }), want{fails: "harness"}},
		"no version":                           {driver(func(d *session.Driver) { d.Version = "" }), want{fails: "harness"}},
		"no drain timeout":                     {driver(func(d *session.Driver) { d.DrainTimeout = 0 }), want{fails: "harness"}},
		"no command":                           {func(r *plan.Request) { r.Profile.Driver.Process.Command = "" }, want{fails: "harness"}},
		"egress enforced":                      {enforcement(session.Required, session.EgressEnforced), want{workspace: session.DurableMount, egress: session.Required}},
		"egress advisory":                      {enforcement(session.Required, session.EgressAdvisory), want{fails: "credential egress"}},
		"egress unsupported":                   {enforcement(session.Required, session.EgressUnsupported), want{fails: "credential egress"}},
		"egress without a port":                {enforcement(session.Required, ""), want{fails: "credential egress"}},
		"best effort egress without a port":    {enforcement(session.Optional, ""), mount},
		"best effort egress, advisory":         {enforcement(session.Optional, session.EgressAdvisory), want{workspace: session.DurableMount, egress: session.Optional}},
		"unknown egress need":                  {enforcement("maybe", ""), want{fails: "credential egress"}},
		"repository forces egress":             {resource(session.ResourceRepository), want{workspace: session.DurableMount, egress: session.Required}},
		"repository without egress":            {all(resource(session.ResourceRepository), enforcement(session.Disabled, "")), want{fails: "credential egress"}},
		"file without materializer":            {all(resource(session.ResourceFile), noInputs), want{fails: "session inputs"}},
		"nothing without materializer":         {noInputs, mount},
		"worker owns memory":                   {all(resource(session.ResourceMemory), noInputs), mount},
		"supervised memory needs materializer": {all(driver(func(*session.Driver) {}), resource(session.ResourceMemory), noInputs), want{fails: "session inputs"}},
		"periodic needs the supervised lane":   {all(only(session.CheckpointRestore), func(r *plan.Request) { r.Periodic = true }), want{fails: "workspace"}},
		"periodic needs checkpoints":           {all(driver(func(*session.Driver) {}), func(r *plan.Request) { r.Periodic = true }), want{fails: "workspace"}},
		"periodic":                             {all(driver(func(*session.Driver) {}), only(session.CheckpointRestore), func(r *plan.Request) { r.Periodic = true }), want{workspace: session.CheckpointRestore}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rich()
			tt.change(&r)
			got, err := plan.Resolve(r)
			var fault *session.CapabilityError
			if tt.want.fails != "" {
				if !errors.As(err, &fault) || fault.Part != tt.want.fails {
					t.Fatalf("want a fault in %s, got %v", tt.want.fails, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if w := (want{got.Workspace, got.Outputs, got.RuntimeCheckpoint, got.Egress, ""}); w != tt.want {
				t.Fatal(cmp.Diff(tt.want, w, cmp.AllowUnexported(want{})))
			}
		})
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	r := rich()
	same := rich().Live
	slices.Reverse(same.Workspace)
	r.Advertised = &same
	if _, err := plan.Resolve(r); err != nil {
		t.Fatalf("order is no drift: %v", err)
	}
	for name, flip := range map[string]func(*session.Capabilities){
		"suspend":         func(c *session.Capabilities) { c.Sandbox.SuspendResume = false },
		"terminate":       func(c *session.Capabilities) { c.Sandbox.HardTerminate = false },
		"checkpoints":     func(c *session.Capabilities) { c.Sandbox.RuntimeCheckpoints = nil },
		"portable":        func(c *session.Capabilities) { c.Sandbox.PortableCheckpoints = true },
		"fewer workspace": func(c *session.Capabilities) { c.Workspace = c.Workspace[1:] },
		"durability":      func(c *session.Capabilities) { c.Outputs[0].Durable = false },
		"lane":            func(c *session.Capabilities) { c.Harness = append(c.Harness, "other") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, advertised := rich(), rich().Live
			flip(&advertised)
			r.Advertised = &advertised
			var fault *session.CapabilityError
			if _, err := plan.Resolve(r); !errors.As(err, &fault) {
				t.Fatalf("drift was not seen: %v", err)
			}
		})
	}
}
