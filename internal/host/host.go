package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/deskfork/deskfork/internal/host/access"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/pkg/api"
)

// Host is the use cases of one machine that runs desktops.
type Host struct {
	// Access is who may call.
	Access *access.Desk
	// Programs runs programs in guests.
	Programs *Programs
	// Ports reaches the ports of guests.
	Ports *Ports
	// Shelf is the images.
	Shelf *Shelf
	// Settings changes running desktops.
	Settings *Settings

	cfg     Config
	store   *store.Store
	events  *event.Log
	ledger  *admission.Ledger
	metrics *metric.Set
	keys    *once.Keys
	tickets *ticket.Book
	holds   holds
	ready   chan struct{} // closed when recovery is over

	mu       sync.Mutex
	desktops map[string]*desktop // guarded by mu; by id
	running  context.Context     // guarded by mu; of Run, nil when it does not run
	actors   sync.WaitGroup      // begun under mu while running is set
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
	h := &Host{
		cfg: cfg, store: db, ledger: ledger, keys: once.New(db, cfg.Now), tickets: ticket.New(cfg.Now),
		// Numbers go on growing over restarts.
		events:   event.New(0, uint64(cfg.Now().UnixMilli()), cfg.Now),
		ready:    make(chan struct{}),
		desktops: make(map[string]*desktop),
	}
	h.metrics = metric.New(h.countStates)
	h.Access = access.New(cfg.DataDir, db, h.keys, cfg.Now)
	h.Programs, h.Ports, h.Shelf, h.Settings = &Programs{h}, &Ports{h}, &Shelf{h}, &Settings{h}
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
	err := h.recover(ctx)
	if err == nil {
		close(h.ready)
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

// Close closes the database. Run has returned, and no call is in progress.
func (h *Host) Close() error { return h.store.Close() }

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
func (h *Host) spawn(d *desktop, begin func(context.Context) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx := h.running
	if ctx == nil || ctx.Err() != nil {
		return api.Errorf(api.CodeGuestUnavail, "the host is stopping")
	}
	h.desktops[d.id] = d
	h.actors.Go(func() { d.run(ctx, begin) })
	return nil
}

// forget drops a desktop that is gone.
func (h *Host) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.desktops, id)
}

// all returns the desktops that exist, in no order.
func (h *Host) all() []*desktop {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*desktop, 0, len(h.desktops))
	for _, d := range h.desktops {
		list = append(list, d)
	}
	return list
}

func (h *Host) countStates() map[string]int {
	n := map[string]int{}
	for _, s := range []api.DesktopState{
		api.StateStarting, api.StateReady, api.StateFailed, api.StateStopped, api.StateDeleting,
	} {
		n[string(s)] = 0
	}
	for _, d := range h.all() {
		n[string(d.snapshot().State)]++
	}
	return n
}
