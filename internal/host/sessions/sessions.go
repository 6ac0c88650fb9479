// Package sessions runs commands in workspaces on desktops of their own: it joins
// the session host (pkg/session/transaction) to the desktops, the blob store and the
// ledger of this host, and ends what dead hosts have left.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/internal/host/sessions/provision"
	"github.com/deskfork/deskfork/internal/host/sessions/record"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/packages"
	"github.com/deskfork/deskfork/pkg/session/reconcile"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

// Names in the data directory.
const (
	spoolDir = "spool" // takes files on their way to the blob store
	runsDir  = "runs"  // what is known of runs
)

// Config is what a desk is made of.
type Config struct {
	// Host has the desktops. Required.
	Host *host.Host
	// Stores are those of the sessions; Host has the same fences. Required.
	Stores session.Stores
	// EndLeases lets go of what dead processes held, at the start. Nil: others
	// share the stores, and leases end by themselves.
	EndLeases func(ctx context.Context) error
	// DataDir is the host's. Required.
	DataDir string
	// Node names this host among those that share the stores; empty: none do. It
	// never changes.
	Node string
	// Publications lists what all sessions have published. Required.
	Publications func(ctx context.Context) ([]session.Publication, error)
	// Suspends says that desktops can be suspended.
	Suspends bool
	// Exports says that runtime checkpoints go to the host's blob store, which has to
	// encrypt. Otherwise they stay on this host.
	Exports bool
	// Timing is that of a run; what else is in it is ignored.
	Timing transaction.Config
	// Reconcile is the pause between two looks for what others have left [15 s].
	Reconcile time.Duration
	// Tidy is the pause between two looks for runtime checkpoints that dead hosts
	// have left, or sessions that have gone elsewhere [1 h].
	Tidy time.Duration
	// Workspace, Inputs and Outputs are where guests have them; empty: where they
	// should.
	Workspace, Inputs, Outputs string
	// Web fetches inputs that have a URL. Nil: from the public internet.
	Web session.InputAccess
	// System says how packages get into guests.
	System provision.System
	// Logger may be nil.
	Logger *slog.Logger
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Desk is the use cases of sessions. Safe for concurrent use.
type Desk struct {
	cfg     Config
	store   output.Store
	reader  *output.Reader
	inputs  input.Store
	machine *sandbox.Sandbox // to end machines with, of whatever session
	vault   *vault.Vault     // nil: runtime checkpoints stay here
	backlog *backlog
	install packages.Installer
	book    *record.Book

	ready chan struct{} // closed when runs may begin

	mu      sync.Mutex
	running context.Context   // guarded by mu; of Run; nil when it does not run
	runs    map[string]*run   // guarded by mu; by id
	keys    map[string]string // guarded by mu; ids of runs by idempotency key
	working sync.WaitGroup    // begun under mu while running is set
}

// New makes a desk. It starts nothing: see Run.
func New(c Config) (*Desk, error) {
	if c.Host == nil || c.Stores.Fences == nil || c.Stores.Orphans == nil || c.Stores.Intents == nil || c.Publications == nil || !filepath.IsAbs(c.DataDir) {
		return nil, errors.New("configure sessions: host, stores, publications and an absolute data directory must be set")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	dir := filepath.Join(c.DataDir, spoolDir)
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("make directory of files on their way: %w", err)
	}
	if c.Web == nil {
		c.Web = input.NewWeb(input.WebConfig{})
	}
	blobs := c.Host.Workspaces.Blobs()
	if c.Exports && len(blobs.Key) == 0 {
		return nil, errors.New("configure sessions: runtime checkpoints hold memory, and the blob store does not encrypt: they have to stay on this host")
	}
	d := &Desk{
		cfg: c, inputs: input.Store{Space: claim.Space{Objects: blobs.Objects, Root: input.Root}, Dir: dir},
		store:   output.Store{Space: claim.Space{Objects: blobs.Objects, Root: output.Root}, Key: blobs.Key, Dir: dir},
		machine: sandbox.New(sandbox.Config{Host: c.Host, Node: c.Node, Suspends: c.Suspends}), backlog: &backlog{},
		ready: make(chan struct{}), runs: map[string]*run{}, keys: map[string]string{},
	}
	if c.Exports {
		d.vault = &vault.Vault{Objects: blobs.Objects, Key: blobs.Key, Now: c.Now}
	}
	if err := d.remember(); err != nil {
		return nil, err
	}
	d.reader = output.NewReader(d.store, "reader-"+token.NewID('d'))
	return d, c.Host.Metrics().Register(d.backlog)
}

// Run ends what dead hosts have left and lets runs begin, until ctx ends; then it
// cancels those that run and returns when they have put everything in order. The
// host outlives it. It is called once.
func (d *Desk) Run(ctx context.Context) error {
	select {
	case <-d.cfg.Host.Ready():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.cfg.EndLeases != nil {
		if err := d.cfg.EndLeases(ctx); err != nil {
			return fmt.Errorf("begin sessions: %w", err)
		}
	}
	for _, name := range d.cfg.Host.Usage.Sessions().Names() { // their runs died with an earlier process
		d.cfg.Host.Usage.Sessions().Closed(name, true)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := reconcile.New(reconcile.Config{
		Stores: d.own(), Sandbox: d.machine, Allocations: d.machine, Interval: d.cfg.Reconcile,
		Observe: d.backlog.set, Logger: d.cfg.Logger,
	})
	var reconciling sync.WaitGroup
	reconciling.Go(func() { _ = r.Run(ctx) }) // ends with ctx alone
	reconciling.Go(func() { d.tidies(ctx) })
	left := d.unsettled()
	reconciling.Go(func() { d.settles(ctx, left) })
	d.mu.Lock()
	d.running = ctx
	d.mu.Unlock()
	close(d.ready)
	<-ctx.Done()
	d.mu.Lock()
	d.running = nil
	d.mu.Unlock()
	d.working.Wait()
	reconciling.Wait()
	return context.Cause(ctx)
}

// own are the stores with the intents of this host alone: whether a machine of
// another one is there, that one knows.
func (d *Desk) own() session.Stores {
	s := d.cfg.Stores
	if d.cfg.Node != "" {
		s.Intents = intents{Intents: s.Intents, owner: d.cfg.Node + "/"}
	}
	return s
}

// intents are those of owners of a host.
type intents struct {
	session.Intents

	owner string // how they begin
}

// Abandoned implements session.Intents.
func (i intents) Abandoned(ctx context.Context, after string, limit int) ([]session.Intent, string, error) {
	page, next, err := i.Intents.Abandoned(ctx, after, limit)
	return slices.DeleteFunc(page, func(in session.Intent) bool { return !strings.HasPrefix(in.Tenure.Owner, i.owner) }), next, err
}

// Ready is closed when runs may begin.
func (d *Desk) Ready() <-chan struct{} { return d.ready }

// find finds a run of a project.
func (d *Desk) find(project, id string) (*run, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.runs[id]; r != nil && r.project == project {
		return r, nil
	}
	e := api.Errorf(api.CodeNotFound, "no run %q in this project", id)
	e.Hint = "runs are forgotten some time after their end: what was published is in the workspace"
	return nil, e
}
