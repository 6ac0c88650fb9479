// Package seal makes the boot snapshots of images: one for each image, shape and
// kind of host, at its first use, by a hidden machine that boots to a drawn
// desktop and is sealed there. Its workspace was never mounted.
package seal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// retryAfter is how long a failure is remembered before it is tried again.
const retryAfter = 5 * time.Minute

// Image is what a boot snapshot is made of.
type Image struct {
	desk.Image

	Name    string // for people
	Digest  string
	DiskMiB int64 // virtual size of the system disk
	Display api.Display
	// Keyboard is the layout it was built for.
	Keyboard string
	User     string
	// WorkspaceMiB is the size of the disk that clones replace.
	WorkspaceMiB int64
	// Park is started, and kept off the screen; without Argv nothing is.
	Park guest.Park

	// notParked says why Park is not started although the image wants it.
	notParked string
}

// errPark says that the program to stand ready does not.
var errPark = errors.New("program not parked")

type key struct{ digest, shape string }

// Maker finds and makes boot snapshots. Safe for concurrent use.
type Maker struct {
	env *desk.Env
	// background runs something as long as the host; false when that has stopped.
	background func(func(context.Context)) bool

	mu      sync.Mutex
	loaded  bool                   // guarded by mu
	made    map[key]store.Snapshot // guarded by mu
	flights map[key]*flight        // guarded by mu
	failed  map[key]failure        // guarded by mu
}

type flight struct {
	said    string        // guarded by Maker.mu; how far it is
	changed chan struct{} // guarded by Maker.mu; closed and replaced when said changes

	image string // for people
	done  chan struct{}
	snap  store.Snapshot // valid when done is closed
	err   error
}

type failure struct {
	err error
	at  time.Time
}

// New makes a maker that has looked at nothing yet.
func New(env *desk.Env, background func(func(context.Context)) bool) *Maker {
	return &Maker{
		env: env, background: background,
		made: make(map[key]store.Snapshot), flights: make(map[key]*flight), failed: make(map[key]failure),
	}
}

// Ready answers the boot snapshot of an image and a shape if it is made.
func (m *Maker) Ready(ctx context.Context, digest, shape string) (store.Snapshot, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(ctx); err != nil {
		return store.Snapshot{}, false, err
	}
	snap, ok := m.made[key{digest, shape}]
	return snap, ok, nil
}

// load reads what earlier runs have made for this kind of host. m.mu is held.
func (m *Maker) load(ctx context.Context) error {
	if m.loaded {
		return nil
	}
	caps, err := m.env.Provider.Capabilities(ctx)
	if err != nil {
		return err
	}
	rows, err := m.env.Store.Snapshots(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.Kind != store.KindBoot {
			continue
		}
		h, k := row.Sealed.Host, key{row.ImageDigest, row.Shape}
		_, newer := m.made[k]
		if fits := h.Provider == caps.Provider && h.Version == caps.Version && h.Accelerator == caps.Accelerator; fits && !newer {
			m.made[k] = row
			continue
		}
		m.env.Logger.Info("boot snapshot of another kind of host removed", "snapshot", row.ID, "host", h)
		m.remove(ctx, row)
	}
	m.loaded = true
	return nil
}

// Get answers the boot snapshot of an image, and makes it if there is none. Who
// comes while it is made waits for it, and is told so by note. The making goes on
// when ctx ends.
func (m *Maker) Get(ctx context.Context, img Image, note func(string)) (store.Snapshot, error) {
	if _, err := m.env.Snapshotter(); err != nil {
		return store.Snapshot{}, err
	}
	snap, ok, err := m.Ready(ctx, img.Digest, img.Shape.Name)
	if ok || err != nil {
		return snap, err
	}
	f, err := m.join(img)
	if err != nil {
		return store.Snapshot{}, err
	}
	defer note("")
	for {
		said, changed := m.progress(f)
		note(fmt.Sprintf("the boot snapshot of image %s in shape %s is being sealed, once: %s", img.Name, img.Shape.Name, said))
		select {
		case <-f.done:
			return f.snap, f.err
		case <-changed:
		case <-ctx.Done():
			return store.Snapshot{}, ctx.Err()
		}
	}
}

// progress says how far a flight is; changed is closed when that is not so any
// more.
func (m *Maker) progress(f *flight) (said string, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f.said, f.changed
}

// tell changes what those hear who wait for a flight.
func (m *Maker) tell(f *flight, said string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(f.changed)
	f.said, f.changed = said, make(chan struct{})
}

// Again makes the boot snapshot of an image anew, whether there is one or not.
// Until it is sealed the old one serves; when it cannot be, or what should stand
// ready in it does not, that stays.
func (m *Maker) Again(ctx context.Context, img Image) (store.Snapshot, error) {
	if _, err := m.env.Snapshotter(); err != nil {
		return store.Snapshot{}, err
	}
	if _, _, err := m.Ready(ctx, img.Digest, img.Shape.Name); err != nil { // the old one is known
		return store.Snapshot{}, err
	}
	f, err := m.begin(img, true)
	if err != nil {
		return store.Snapshot{}, err
	}
	select {
	case <-f.done:
		return f.snap, f.err
	case <-ctx.Done():
		return store.Snapshot{}, ctx.Err()
	}
}

// join takes part in the flight that makes a snapshot, or begins one.
func (m *Maker) join(img Image) (*flight, error) { return m.begin(img, false) }

// begin is join; with again what was made, or failed, before does not count.
func (m *Maker) begin(img Image, again bool) (*flight, error) {
	k := key{img.Digest, img.Shape.Name}
	m.mu.Lock()
	defer m.mu.Unlock()
	if snap, ok := m.made[k]; ok && !again { // meanwhile
		f := &flight{done: make(chan struct{}), changed: make(chan struct{}), snap: snap}
		close(f.done)
		return f, nil
	}
	if f := m.flights[k]; f != nil {
		return f, nil
	}
	if last, ok := m.failed[k]; ok && !again {
		if next := last.at.Add(retryAfter); m.env.Now().Before(next) {
			return nil, fmt.Errorf("%w (tried again after %s)", last.err, next.UTC().Format("15:04:05 MST"))
		}
	}
	f := &flight{
		image: img.Name, done: make(chan struct{}), changed: make(chan struct{}),
		said: "the image's first desktop boots cold, which takes a minute or more; later ones are clones",
	}
	_, instead := m.made[k]
	if !m.background(func(ctx context.Context) { m.fly(ctx, img, f, instead) }) {
		return nil, api.Errorf(api.CodeGuestUnavail, "the host is stopping")
	}
	m.flights[k] = f
	return f, nil
}

// fly makes a snapshot. One that takes the place of another is no worse than that
// may be: what should stand ready does.
func (m *Maker) fly(ctx context.Context, img Image, f *flight, instead bool) {
	k := key{img.Digest, img.Shape.Name}
	began := m.env.Now()
	tell := func(said string) { m.tell(f, said) }
	f.snap, f.err = m.build(ctx, img, tell)
	if errors.Is(f.err, errPark) && ctx.Err() == nil && !instead {
		m.env.Logger.Error("boot snapshot is sealed without the program that should stand ready", "image", img.Name, "err", f.err)
		img.Park, img.notParked = guest.Park{}, f.err.Error()
		f.snap, f.err = m.build(ctx, img, tell)
	}
	old, have := m.land(ctx, k, f, began)
	if have {
		m.remove(ctx, old)
	}
}

// land tells who waits for a flight what came of it, and answers the snapshot
// that was there before and serves no more.
func (m *Maker) land(ctx context.Context, k key, f *flight, began time.Time) (old store.Snapshot, have bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(f.done)
	delete(m.flights, k)
	log := m.env.Logger.With("image", f.image, "shape", k.shape, "took", m.env.Now().Sub(began))
	if f.err != nil {
		f.err = fmt.Errorf("the boot snapshot could not be sealed: %w", f.err)
		if ctx.Err() == nil && !errors.Is(f.err, admission.ErrNoCapacity) {
			m.failed[k] = failure{f.err, m.env.Now()}
		}
		log.Error("boot snapshot not sealed", "err", f.err)
		return old, false
	}
	delete(m.failed, k)
	old, have = m.made[k]
	m.made[k] = f.snap
	log.Info("boot snapshot sealed", "snapshot", f.snap.ID, "memory_bytes", f.snap.MemoryBytes)
	return old, have
}

// Drop removes a boot snapshot that does not serve any more.
func (m *Maker) Drop(ctx context.Context, snap store.Snapshot) {
	k := key{snap.ImageDigest, snap.Shape}
	m.mu.Lock()
	if m.made[k].ID == snap.ID {
		delete(m.made, k)
	}
	m.mu.Unlock()
	m.remove(ctx, snap)
}

func (m *Maker) remove(ctx context.Context, snap store.Snapshot) {
	err := m.env.Store.BurySnapshot(ctx, snap.ID, nil, m.env.Now())
	if s, serr := m.env.Snapshotter(); serr == nil && err == nil {
		err = s.RemoveSnapshot(ctx, vm.SnapshotID(snap.ID))
	}
	if err != nil {
		m.env.Logger.Error("boot snapshot not removed", "snapshot", snap.ID, "err", err)
	}
}

// DropImage removes the boot snapshots of an image that is gone.
func (m *Maker) DropImage(ctx context.Context, digest string) {
	rows, err := m.env.Store.Snapshots(ctx)
	if err != nil {
		m.env.Logger.Error("boot snapshots of a removed image not found", "err", err)
		return
	}
	for _, row := range rows {
		if row.Kind == store.KindBoot && row.ImageDigest == digest {
			m.Drop(ctx, row)
		}
	}
}
