package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/deskfork/deskfork/internal/host/access"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/archive"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/depot"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/policy"
	"github.com/deskfork/deskfork/internal/host/pool"
	"github.com/deskfork/deskfork/internal/host/program"
	"github.com/deskfork/deskfork/internal/host/recording"
	"github.com/deskfork/deskfork/internal/host/seal"
	"github.com/deskfork/deskfork/internal/host/setting"
	"github.com/deskfork/deskfork/internal/host/shelf"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/internal/host/viewer"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// startsAtOnce is how many clones start at a time on a small host.
const startsAtOnce = 4

// Host is the use cases of one machine that runs desktops.
type Host struct {
	// Access is who may call.
	Access *access.Desk
	// Programs runs programs in guests.
	Programs *program.Runner
	// Ports reaches the ports of guests.
	Ports *ticket.Ports
	// Shelf is the images.
	Shelf *shelf.Shelf
	// Settings changes running desktops.
	Settings *setting.Settings
	// Snapshots are the sealed instants of desktops.
	Snapshots *Snapshots
	// Power pauses, suspends, resumes and restores desktops.
	Power *Power
	// Workspaces are the files of desktops that outlive them.
	Workspaces *workspaces.Desk
	// Archives moves their files in and out.
	Archives *archive.Desk
	Exports  *depot.Desk // of snapshots, in the blob store
	// Usage is what desktops have used, and what that costs.
	Usage *usage.Book
	// Controls are who may send input, Views the tickets of people who watch, and
	// Viewers those who do.
	Controls *control.Desk
	Views    *ticket.Views
	Viewers  *viewer.Desk
	// Recordings is what was recorded of desktops.
	Recordings *recording.Desk

	cfg     Config
	store   *store.Store
	events  *event.Log
	ledger  *admission.Ledger
	metrics *metric.Set
	keys    *once.Keys
	tickets *ticket.Book
	env     *desk.Env
	boots   *seal.Maker
	pool    *pool.Pool
	ready   chan struct{} // closed when recovery is over

	mu       sync.Mutex
	desktops map[string]*desk.Desktop // guarded by mu; by id
	running  context.Context          // guarded by mu; of Run, nil when it does not run
	actors   sync.WaitGroup           // begun under mu while running is set
}

// New opens the host's database. It starts nothing: see Run.
func New(ctx context.Context, cfg Config) (*Host, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure host: %w", err)
	}
	cfg.setDefaults()
	cfg.Admission.Usage = cfg.Usage
	ledger, err := admission.New(cfg.Admission)
	if err != nil {
		return nil, fmt.Errorf("configure host: %w", err)
	}
	db, err := store.Open(ctx, filepath.Join(cfg.DataDir, DatabaseName))
	if err != nil {
		return nil, err
	}
	book, err := usage.Open(ctx, cfg.DataDir, cfg.Billing, cfg.Logger)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	h := &Host{
		cfg: cfg, store: db, Usage: book, ledger: ledger, keys: once.New(db, cfg.Now),
		// Numbers go on growing over restarts.
		events:   event.New(0, uint64(cfg.Now().UnixMilli()), cfg.Now),
		ready:    make(chan struct{}),
		desktops: make(map[string]*desk.Desktop),
	}
	h.metrics = metric.New(h.countStates, book.Collector())
	h.Access = access.New(cfg.DataDir, db, h.keys, cfg.Now)
	if err := h.people(db, book); err != nil { //nolint:contextcheck // a revoked token ends what is held, whoever revokes it
		return nil, errors.Join(err, book.Close(), db.Close())
	}
	h.env = &desk.Env{
		Provider: cfg.Provider, Store: db, Events: h.events, Metrics: h.metrics, Open: cfg.Open,
		Cold: cfg.Limits, Clone: cfg.CloneLimits, UUIDs: &boot.UUIDs{}, Version: cfg.Version, Logger: cfg.Logger, Now: cfg.Now,
		Starts: make(chan struct{}, max(startsAtOnce, 2*runtime.NumCPU())),
		Usage:  book, Reserve: ledger.Reserve, Gone: h.gone,
	}
	h.boots = seal.New(h.env, h.background)
	h.pool = pool.New(pool.Config{
		Limits: cfg.Pool, Env: h.env, Room: h.room, Logger: cfg.Logger, Now: cfg.Now,
		Find: func(ctx context.Context, id vm.SnapshotID) (store.Sealed, error) {
			snap, err := db.Snapshot(ctx, "", string(id))
			return snap.Sealed, err
		},
	})
	h.Programs = &program.Runner{Guest: h.Guest, Find: h.find, Keys: h.keys, Store: db, Metrics: h.metrics, Now: cfg.Now}
	h.Shelf = &shelf.Shelf{Stored: cfg.Images, Store: db, Users: h.users, Gone: h.boots.DropImage}
	h.Ports = &ticket.Ports{Book: h.tickets, Find: h.Desktop, Guest: h.Guest}
	h.Workspaces, err = workspaces.Open(workspaces.Config{
		Blobs: cfg.Blobs, Fences: cfg.Fences, DataDir: cfg.DataDir, Store: store.Workspaces{Store: db}, Keys: h.keys, Provider: cfg.Provider, Guest: h.Guest, Machine: h.machine, Now: cfg.Now, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, book.Close(), db.Close())
	}
	h.env.Attach, h.Archives = h.Workspaces.Attach, &archive.Desk{Desktops: h, Workspaces: h.Workspaces, Logger: cfg.Logger}
	h.Settings = &setting.Settings{Guest: h.Guest, Find: h.present}
	h.Snapshots, h.Power = &Snapshots{h}, &Power{h}
	h.Exports = &depot.Desk{Snapshots: h.Snapshots, Objects: h.Workspaces.Blobs().Objects, Key: h.Workspaces.Blobs().Key, Now: cfg.Now, Logger: cfg.Logger}
	return h, nil
}

// Run finds the machines that still run, adopts them, and serves until ctx
// ends. Machines go on without it. It returns when all that it started has
// ended; it is called once.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	if h.running != nil {
		h.mu.Unlock()
		return errors.New("run host: it runs already")
	}
	h.running = ctx
	h.mu.Unlock()
	var counting sync.WaitGroup // ends after the last desktop
	counted, endCount := context.WithCancel(context.WithoutCancel(ctx))
	defer counting.Wait()
	defer endCount()
	err := h.recover(ctx)
	if err == nil {
		counting.Go(func() { h.Usage.Run(counted) })
		close(h.ready)
		h.background(h.pool.Run)                            //nolint:contextcheck // under the context that Run has set
		h.background(h.Recordings.Run)                      //nolint:contextcheck // under the context that Run has set
		h.background(policy.New(keeping{h}, h.cfg.Now).Run) //nolint:contextcheck // under the context that Run has set
		<-ctx.Done()
	}
	h.mu.Lock()
	h.running = stopped
	h.mu.Unlock()
	cancel() // when recover has failed there may be actors
	h.actors.Wait()
	return err
}

// stopped is the context of a host that has run.
var stopped = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Ready is closed when the desktops of an earlier run have been found. Calls
// before that answer guest_unavailable.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// Close closes the databases. Run has returned, and no call is in progress.
func (h *Host) Close() error {
	h.Controls.Close()
	return errors.Join(h.Workspaces.Close(), h.Usage.Close(), h.store.Close())
}

// FirstToken makes sure that the token file holds a valid admin token and
// returns its path.
func (h *Host) FirstToken(ctx context.Context) (path string, err error) { return h.Access.First(ctx) }

// Metrics is what the host counts.
func (h *Host) Metrics() *metric.Set { return h.metrics }

// Events is the log of what happened.
func (h *Host) Events() *event.Log { return h.events }

// whenReady refuses calls while an earlier run's desktops are not known yet.
func (h *Host) whenReady() error {
	select {
	case <-h.ready:
		return nil
	default:
		return api.Errorf(api.CodeGuestUnavail, "the host is looking for desktops that still run; try again")
	}
}

// spawn starts an actor unless the host has stopped.
func (h *Host) spawn(d *desk.Desktop, begin func(context.Context) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx := h.running
	if ctx == nil || ctx.Err() != nil {
		return api.Errorf(api.CodeGuestUnavail, "the host is stopping")
	}
	h.desktops[d.ID] = d
	h.actors.Go(func() { d.Run(ctx, begin) })
	return nil
}

// background runs fn under the host's own context, unless the host has stopped;
// Run waits for it.
func (h *Host) background(fn func(context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx := h.running
	if ctx == nil || ctx.Err() != nil {
		return false
	}
	h.actors.Go(func() { fn(ctx) })
	return true
}

// gone drops a desktop of which nothing is left.
func (h *Host) gone(id string) {
	h.tickets.Revoke(id)
	h.Controls.Forget(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.desktops, id)
}

// all returns the desktops that exist, in no order.
func (h *Host) all() []*desk.Desktop {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*desk.Desktop, 0, len(h.desktops))
	for _, d := range h.desktops {
		list = append(list, d)
	}
	return list
}

func (h *Host) countStates() map[string]int {
	n := map[string]int{}
	for _, s := range []api.DesktopState{
		api.StateStarting, api.StateReady, api.StateFailed, api.StateStopped, api.StateDeleting,
		api.StatePaused, api.StateSuspended,
	} {
		n[string(s)] = 0
	}
	for _, d := range h.all() {
		n[string(d.View().State)]++
	}
	return n
}

// users are the desktops, of all projects, that have an image, by digest.
func (h *Host) users() map[string][]string {
	by := map[string][]string{}
	for _, d := range h.all() {
		v := d.View()
		by[v.ImageDigest] = append(by[v.ImageDigest], v.ID)
	}
	return by
}
