// Package output takes deliverables out of sessions' desktops: it implements
// session.Outputs on guestd's files and the blob store.
//
// Every file is read and hashed twice: when it is collected, and when it is stored
// under its hash in the set of its run, which a hold keeps from sweeps. A manifest that names them is stored last, and means nothing until
// the session's fence publishes it. By watch_and_upload files are stored as soon as
// they have not changed for a while, so that little is left for the end; what counts
// is what is there then.
package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// Config is what outputs are taken with.
type Config struct {
	// Guest finds the live parts of a desktop.
	Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)
	Store Store
	// Mount is where guests put them [session.OutputPath].
	Mount string
	// Logger may be nil.
	Logger *slog.Logger
}

// Outputs implements session.Outputs. Safe for concurrent use.
type Outputs struct {
	cfg Config

	mu     sync.Mutex
	places map[string]*place // guarded by mu; by binding
}

var _ session.Outputs = (*Outputs)(nil)

// place is where one tenure's outputs are.
type place struct {
	strategy session.OutputStrategy
	mount    string
	files    live.Files    // nil before Attach
	watch    *watch        // nil unless watched
	set      string        // guarded by Outputs.mu
	held     time.Time     // guarded by Outputs.mu; until when the set is held; zero: not at all
	stored   map[blob]bool // guarded by Outputs.mu; what is in the store
	named    map[blob]bool // guarded by Outputs.mu; what manifests name
}

// blob is a file in the store.
type blob struct{ set, hash string }

func newPlace(strategy session.OutputStrategy, mount string) *place {
	return &place{strategy: strategy, mount: mount, set: token.NewID('o'), stored: map[blob]bool{}, named: map[blob]bool{}}
}

// holder is who holds the set of a run: nobody else does that writes to it.
const holder = "run"

// New makes the port. It starts nothing.
func New(c Config) *Outputs {
	if c.Mount == "" {
		c.Mount = session.OutputPath
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Outputs{cfg: c, places: map[string]*place{}}
}

// Strategies implements session.Outputs.
func (*Outputs) Strategies(context.Context, session.Scope) ([]session.OutputCapability, error) {
	return []session.OutputCapability{
		{Strategy: session.OutputsWatch, Durable: true}, {Strategy: session.OutputsCollect, Durable: true},
	}, nil
}

// Prepare implements session.Outputs.
func (o *Outputs) Prepare(_ context.Context, p session.OutputPreparation) (session.Binding, error) {
	if p.Strategy != session.OutputsCollect && p.Strategy != session.OutputsWatch {
		return session.Binding{}, fmt.Errorf("outputs by %s: %w", p.Strategy, session.ErrUnsupported)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.places[p.Key] == nil {
		o.places[p.Key] = newPlace(p.Strategy, o.cfg.Mount)
	}
	return session.Binding{ID: p.Key, MountPath: o.cfg.Mount}, nil
}

func (o *Outputs) place(b session.Binding) (*place, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.places[b.ID]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("outputs %q: %w: prepare them first", b.ID, session.ErrNotFound)
}

// makeDir makes an empty directory that belongs to the user of the first, who may
// not be allowed to.
const makeDir = `rm -rf -- "$1" 2>/dev/null; mkdir -p -- "$1" 2>/dev/null && test -z "$(ls -A -- "$1")" || { id -u; id -g; exit 3; }`

const makeDirFor = `set -e; rm -rf -- "$1"; mkdir -p -- "$1"; chown "$2:$3" -- "$1"`

// Attach implements session.Outputs: the guest gets an empty directory.
func (o *Outputs) Attach(ctx context.Context, _ session.Tenure, b session.Binding, l session.Lease) error {
	p, err := o.place(b)
	if err != nil {
		return err
	}
	project, id, err := sandbox.Desktop(l)
	if err != nil {
		return err
	}
	parts, err := o.cfg.Guest(ctx, project, id)
	if err != nil {
		return err
	}
	if err := emptied(ctx, parts.Execs, p.mount); err != nil {
		return fmt.Errorf("make the directory of outputs: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p.files = parts.Files
	if p.strategy == session.OutputsWatch && p.watch == nil {
		p.watch = o.begin(ctx, p)
	}
	return nil
}

func emptied(ctx context.Context, execs live.Execs, dir string) error {
	ran, err := execs.Run(ctx, guest.ExecSpec{Argv: []string{"/bin/sh", "-c", makeDir, "outputs", dir}, Dir: "/"}, nil)
	if err != nil || ran.Status.ExitCode == 0 {
		return err
	}
	var uid, gid int
	if _, err := fmt.Sscan(string(ran.Stdout), &uid, &gid); err != nil {
		return fmt.Errorf("exit status %d: %s", ran.Status.ExitCode, ran.Stderr)
	}
	ran, err = execs.Run(ctx, guest.ExecSpec{
		Argv: []string{"/bin/sh", "-c", makeDirFor, "outputs", dir, fmt.Sprint(uid), fmt.Sprint(gid)}, Dir: "/", User: "root",
	}, nil)
	if err == nil && ran.Status.ExitCode != 0 {
		err = fmt.Errorf("exit status %d: %s", ran.Status.ExitCode, ran.Stderr)
	}
	return err
}

// Collect implements session.Outputs.
func (o *Outputs) Collect(ctx context.Context, _ session.Tenure, b session.Binding, _ session.Lease) ([]session.OutputEntry, error) {
	p, err := o.attached(b)
	if err != nil {
		return nil, err
	}
	list, err := p.list(ctx)
	if err != nil {
		return nil, err
	}
	entries := make([]session.OutputEntry, 0, len(list))
	for _, f := range list {
		e, err := p.read(ctx, f.logical, f.size, nil)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (o *Outputs) attached(b session.Binding) (*place, error) {
	p, err := o.place(b)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.files == nil {
		return nil, errors.New("outputs are not attached to a machine")
	}
	return p, nil
}

// Finalize implements session.Outputs.
func (o *Outputs) Finalize(ctx context.Context, s session.OutputSet) (session.Candidate, error) {
	p, err := o.attached(s.Binding)
	if err != nil {
		return session.Candidate{}, err
	}
	set, err := o.renew(ctx, p)
	if err != nil {
		return session.Candidate{}, err
	}
	for _, want := range s.Entries {
		if err := o.take(ctx, p, set, want); err != nil {
			return session.Candidate{}, err
		}
	}
	c, err := o.cfg.Store.manifest(ctx, set, s.Tenure, s.Entries)
	if err != nil {
		return session.Candidate{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range s.Entries {
		p.named[blob{set, e.ContentHash}] = true
	}
	return c, nil
}

// renew holds the set anew, and gives it. A run may last longer than a hold: then it
// begins another set, and everything is stored again, which is all still in the guest.
// So what is published has been held all the time, and no sweep condemns it in passing.
func (o *Outputs) renew(ctx context.Context, p *place) (string, error) {
	for {
		now := time.Now().Round(0) // the end of a hold is told by calendars, in suspended hosts too
		o.mu.Lock()
		if !p.held.IsZero() && p.held.Before(now) {
			p.set, p.held = token.NewID('o'), time.Time{}
		}
		set := p.set
		o.mu.Unlock()
		err := o.cfg.Store.Hold(ctx, set, holder)
		if err == nil {
			err = o.cfg.Store.Dropped(ctx, set)
		}
		o.mu.Lock()
		switch {
		case p.set != set: // somebody else was faster
		case err == nil:
			p.held = now.Add(claim.Life)
		case errors.Is(err, claim.ErrDropped):
			p.set, p.held = token.NewID('o'), time.Time{}
		}
		o.mu.Unlock()
		if !errors.Is(err, claim.ErrDropped) {
			return set, err
		}
	}
}

// current is the set, which is held.
func (o *Outputs) current(ctx context.Context, p *place) (string, error) {
	o.mu.Lock()
	set, held := p.set, p.held.After(time.Now())
	o.mu.Unlock()
	if held {
		return set, nil
	}
	return o.renew(ctx, p)
}

// take stores one file as it was collected.
func (o *Outputs) take(ctx context.Context, p *place, set string, want session.OutputEntry) error {
	o.mu.Lock()
	there := p.stored[blob{set, want.ContentHash}]
	o.mu.Unlock()
	var spool *spool
	if !there {
		var err error
		if spool, err = o.cfg.Store.spool(); err != nil {
			return err
		}
		defer spool.close()
	}
	got, err := p.read(ctx, want.LogicalPath, want.Size, spool)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("output %s has changed while it was taken", want.LogicalPath)
	}
	if there {
		return nil
	}
	if err := o.cfg.Store.put(ctx, set, got.ContentHash, spool, got.Size); err != nil {
		return fmt.Errorf("store output %s: %w", want.LogicalPath, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p.stored[blob{set, got.ContentHash}] = true
	return nil
}

// Release implements session.Outputs.
func (o *Outputs) Release(ctx context.Context, _ session.Tenure, b session.Binding) error {
	o.mu.Lock()
	p := o.places[b.ID]
	delete(o.places, b.ID)
	o.mu.Unlock()
	if p == nil {
		return nil
	}
	if p.watch != nil {
		p.watch.end()
	}
	return o.forsake(ctx, p)
}

// forsake removes what was stored and that no manifest names, as files are that have
// changed since, and lets the set go. What is left of it is swept away.
func (o *Outputs) forsake(ctx context.Context, p *place) error {
	o.mu.Lock()
	sets, waste := map[string]bool{p.set: !p.held.IsZero()}, []blob{}
	for b := range p.stored {
		sets[b.set] = true
		if !p.named[b] {
			waste = append(waste, b)
		}
	}
	o.mu.Unlock()
	var faults error
	for _, b := range waste {
		key, err := o.cfg.Store.name(b.set, b.hash)
		if err == nil {
			err = o.cfg.Store.Objects.Delete(ctx, key)
		}
		if faults = errors.Join(faults, err); ctx.Err() != nil {
			break
		}
	}
	for set, held := range sets {
		if held {
			faults = errors.Join(faults, o.cfg.Store.Release(ctx, set, holder))
		}
	}
	return faults
}

// Abort implements session.Outputs.
func (o *Outputs) Abort(ctx context.Context, t session.Tenure, b session.Binding, _ session.Reason) error {
	return o.Release(ctx, t, b)
}
