package leases

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/x/steady"
	"github.com/deskfork/deskfork/internal/x/turns"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Machines makes and ends machines, and finds those of a dead process.
type Machines interface {
	session.Sandbox
	session.Allocations
}

// Spec is what a machine is made of.
type Spec struct {
	// Image is a name or a digest; Digest, when it is set, what that must resolve to.
	Image, Digest string
	// Shape is empty for the default.
	Shape string
}

// Config is a desk's. Zero values mean what is in brackets.
type Config struct {
	// Provider is whose leases these are.
	Provider string
	// Version is told to drivers.
	Version string
	// Machines gives the machines of a project; it fails before anything is made when
	// there is no such image or shape.
	Machines func(ctx context.Context, project string, want Spec) (Machines, error)
	// Guest reaches into a machine whose guest has answered.
	Guest func(ctx context.Context, project string, l session.Lease) (*live.Desktop, error)
	Book  *Book
	// Interval is the pause between two looks at what is due [5 s].
	Interval time.Duration
	// Undo bounds the ending of a machine that nobody waits for [1 min].
	Undo time.Duration
	// Now [steady.Clock: nobody's lease runs out because a clock was set].
	Now    func() time.Time
	Logger *slog.Logger
}

// Leases of an earlier process. Nobody could renew them while none ran, and its clock
// may have been another.
const (
	takenOver = 90 * time.Second // a lease has at least so long after a start
	longest   = 24 * time.Hour   // that anybody may ask for
)

// Desk leases machines. Safe for concurrent use.
type Desk struct {
	cfg  Config
	kick chan struct{}

	busy turns.Turns // of scopes that are being changed
}

// New fills in the defaults. It starts nothing: see Run.
func New(cfg Config) *Desk {
	cfg.Interval = cmp.Or(cfg.Interval, 5*time.Second)
	cfg.Undo = cmp.Or(cfg.Undo, time.Minute)
	if cfg.Now == nil {
		cfg.Now = steady.Clock()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{cfg: cfg, kick: make(chan struct{}, 1)}
}

// Begin takes leases over from an earlier process, before anybody asks for anything.
func (d *Desk) Begin(ctx context.Context) error {
	now := d.cfg.Now()
	return d.cfg.Book.takeOver(ctx, now.Add(takenOver), now.Add(longest))
}

// Version is what drivers are told.
func (d *Desk) Version() string { return d.cfg.Version }

// Provider is whose leases these are.
func (d *Desk) Provider() string { return d.cfg.Provider }

// StaleError says that a newer generation of a scope was seen.
type StaleError struct{ Current int64 }

func (e *StaleError) Error() string {
	return fmt.Sprintf("generation %d holds the session now", e.Current)
}

// As makes it an *api.Error.
func (e *StaleError) As(target any) bool {
	t, ok := target.(**api.Error)
	if ok {
		*t = api.Errorf(api.CodeStale, "%s", e)
		(*t).Generation, (*t).Hint = e.Current, "give the session up"
	}
	return ok
}

// Request asks for a machine.
type Request struct {
	Tenure session.Tenure
	Spec   Spec
	// Strategy is session.Ephemeral or session.RetainedRuntime.
	Strategy session.WorkspaceStrategy
	Binding  string
	// Resume is the id of the suspended incarnation to go on from, or of the one that it
	// was before; may be empty.
	Resume string
	// From is the runtime checkpoint to begin in; may be nil.
	From *session.RuntimeCheckpoint `json:",omitempty"`
	TTL  time.Duration
}

// View is what an incarnation is.
type View struct {
	Tenure  session.Tenure
	Lease   session.Lease
	State   session.RuntimeState
	Expires time.Time // zero: never
}

// Caller is who calls: a project, under a generation of its fence; 0: it does not say.
type Caller struct {
	Project    string
	Generation int64
}

// Capabilities is what the machines of a project can do.
func (d *Desk) Capabilities(ctx context.Context, project string) (session.SandboxCapabilities, error) {
	m, err := d.cfg.Machines(ctx, project, Spec{})
	if err != nil {
		return session.SandboxCapabilities{}, err
	}
	c, err := m.Capabilities(ctx, session.Scope{})
	if _, serr := sealer(m); serr != nil {
		c.RuntimeCheckpoints = nil
	}
	return c, err
}

// lock waits for its turn at a scope.
func (d *Desk) lock(ctx context.Context, project string, scope session.Scope) (unlock func(), err error) {
	return d.busy.Enter(ctx, turnOf(project, scope))
}

func turnOf(project string, scope session.Scope) string { return project + "\n" + scopeKey(scope) }

// Create makes a machine, or gives the one that this generation has already. When it
// fails, or ctx ends before it is told, nothing is left.
func (d *Desk) Create(ctx context.Context, project string, req Request) (View, error) {
	if err := req.Tenure.Validate(); err != nil {
		return View{}, api.Errorf(api.CodeInvalid, "%s", err)
	}
	text, err := json.Marshal(req)
	if err != nil {
		return View{}, fmt.Errorf("note request: %w", err)
	}
	machines, err := d.cfg.Machines(ctx, project, req.Spec)
	if err != nil {
		return View{}, err
	}
	unlock, err := d.lock(ctx, project, req.Tenure.Scope)
	if err != nil {
		return View{}, err
	}
	defer unlock()
	r, err := d.cfg.Book.begin(ctx, row{project: project, tenure: req.Tenure, request: string(text), state: making, due: d.cfg.Now().Add(req.TTL)})
	if err != nil {
		return View{}, err
	}
	switch {
	case r.state != making && r.state != leased:
		return View{}, api.Errorf(api.CodePrecondition, "the sandbox of generation %d is %s: take a new generation", req.Tenure.Generation, r.state)
	case r.request != string(text):
		return View{}, api.Errorf(api.CodeConflict, "generation %d has asked for another sandbox already", req.Tenure.Generation)
	case r.state == leased:
		return d.view(ctx, machines, r)
	}
	return d.allocate(ctx, machines, r, req)
}

// allocate makes the machine of a row that is written down.
func (d *Desk) allocate(ctx context.Context, machines Machines, r row, req Request) (View, error) {
	a := session.Allocation{
		Tenure: req.Tenure, Name: intent(r).ID, Plan: session.Plan{Workspace: req.Strategy},
		Workspace: session.Binding{ID: req.Binding, MountPath: session.WorkspacePath},
	}
	// What is to be noted is noted whether or not the caller is still there.
	noting := context.WithoutCancel(ctx)
	resumed, err := d.resumable(ctx, r, req)
	a.Resume = resumed
	var lease session.Lease
	if err == nil {
		lease, err = begin(ctx, machines, a, req.From)
	}
	if err != nil {
		r.state, r.due = failed, d.cfg.Now()
		return View{}, errors.Join(err, d.cfg.Book.turn(noting, r))
	}
	r.lease, r.state, r.due = &lease, leased, d.cfg.Now().Add(req.TTL)
	err = d.cfg.Book.bind(noting, r)
	if err == nil {
		err = context.Cause(ctx) // who asked has gone
	}
	if err != nil {
		return View{}, errors.Join(err, d.undo(noting, machines, r))
	}
	if err := d.cfg.Book.supersede(noting, r, resumed); err != nil {
		d.cfg.Logger.Error("older generations stay until their leases run out", "err", err)
	}
	d.wake()
	return d.view(ctx, machines, r)
}

// intent names a row's machine: a project's own, and no session's of this host.
func intent(r row) session.Intent {
	in := session.NewIntent(r.tenure)
	in.ID = "lease " + r.project + " " + in.ID
	return in
}

// resumable is the suspended machine that a request names.
func (d *Desk) resumable(ctx context.Context, r row, req Request) (*session.Lease, error) {
	if req.Resume == "" {
		return nil, nil
	}
	from, err := d.cfg.Book.find(ctx, r.project, req.Resume)
	if errors.Is(err, session.ErrNotFound) || from.state == ended {
		from, _, err = d.cfg.Book.suspended(ctx, r.project, req.Resume)
	}
	if err == nil && from.state != sealed {
		return nil, api.Errorf(api.CodeNotFound, "there is no suspended sandbox %s", req.Resume)
	}
	if err != nil {
		return nil, err
	}
	if from.tenure.Scope.Key() != r.tenure.Scope.Key() {
		return nil, fmt.Errorf("sandbox %s is another session's: %w", req.Resume, session.ErrForeign)
	}
	return from.lease, nil
}

// undo ends a machine that nobody will hear of; one that stays is tried again.
func (d *Desk) undo(ctx context.Context, machines Machines, r row) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Undo)
	defer cancel()
	err := machines.Terminate(ctx, r.tenure, *r.lease, session.ReasonFailed)
	return errors.Join(err, d.settle(context.WithoutCancel(ctx), r, err, failed))
}

// settle notes how the ending of a machine went.
func (d *Desk) settle(ctx context.Context, r row, err error, done state) error {
	r.state, r.due = done, d.cfg.Now()
	if err != nil {
		r.state, r.due = ending, d.cfg.Now().Add(backoff(r.attempts))
		r.attempts++
	}
	return d.cfg.Book.turn(ctx, r)
}

// backoff is the pause after a failure that came after attempts others.
func backoff(attempts int) time.Duration {
	const first, last = 5 * time.Second, time.Hour
	if attempts > 12 {
		return last
	}
	return min(first<<max(attempts, 0), last)
}

// wake has Run look at once.
func (d *Desk) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

func (d *Desk) view(ctx context.Context, machines Machines, r row) (View, error) {
	v := View{Tenure: r.tenure, Lease: *r.lease}
	if r.state == leased {
		v.Expires = r.due
	}
	var err error
	v.State, err = machines.Inspect(ctx, *r.lease)
	return v, err
}

// machinesOf are the machines that made a row's.
func (d *Desk) machinesOf(ctx context.Context, r row) (Machines, error) {
	return d.cfg.Machines(ctx, r.project, Spec{})
}
