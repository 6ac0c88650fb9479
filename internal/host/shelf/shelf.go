// Package shelf is the images that desktops boot from, and who needs them.
package shelf

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Image is what a desktop boots from.
type Image struct {
	api.Image

	Boot     vm.Boot
	System   vm.Disk     // Base and BaseFormat set
	Display  api.Display // the screen it was built for
	Keyboard string      // the layout it was built for; empty: us
	User     string      // whose desktop it is; empty: agent
	Park     guest.Park  // stands ready in its boot snapshots; without Argv: nothing
}

// Images finds and removes images.
type Images interface {
	// Resolve finds an image by name, name:tag or digest and proves that its
	// files are there.
	Resolve(ctx context.Context, ref string) (Image, error)
	List(ctx context.Context) ([]api.Image, error)
	// Remove removes an image, or takes a tag off it. Before an image goes inUse
	// is asked who uses it; an answer ends the removal with nothing changed.
	Remove(ctx context.Context, ref string, inUse func(digest string) string) error
}

// holds counts who is about to use an image, so that it is not removed between
// being found and being used.
type holds struct {
	mu sync.Mutex
	n  map[string]int // guarded by mu; by digest
}

func (l *holds) take(digest string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == nil {
		l.n = make(map[string]int)
	}
	l.n[digest]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.n[digest]--; l.n[digest] == 0 {
			delete(l.n, digest)
		}
	}
}

func (l *holds) has(digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n[digest] > 0
}

// Shelf is the images. Safe for concurrent use; all members are required.
type Shelf struct {
	Stored Images
	Store  *store.Store
	// Users are the desktops, of all projects, that have an image, by digest.
	Users func() map[string][]string
	// Gone is told of an image that was removed.
	Gone func(ctx context.Context, digest string)

	holds holds
}

// Hold finds an image and keeps it from being removed until release.
func (s *Shelf) Hold(ctx context.Context, ref string) (img Image, release func(), err error) {
	img, err = s.Stored.Resolve(ctx, ref)
	if err != nil {
		return Image{}, nil, err
	}
	release = s.holds.take(img.Digest)
	// It may have gone before it was held.
	if _, err := s.Stored.Resolve(ctx, img.Digest); err != nil {
		release()
		return Image{}, nil, err
	}
	return img, release, nil
}

// List lists the stored images, newest first.
func (s *Shelf) List(ctx context.Context) ([]api.Image, error) {
	list, err := s.Stored.List(ctx)
	if err != nil {
		return nil, err
	}
	users := s.Users()
	for i := range list {
		list[i].InUse = len(users[list[i].Digest])
	}
	return list, nil
}

// Get describes one image by name, name:tag or digest.
func (s *Shelf) Get(ctx context.Context, ref string) (api.Image, error) {
	img, err := s.Stored.Resolve(ctx, ref)
	if err != nil {
		return api.Image{}, err
	}
	img.InUse = len(s.Users()[img.Digest])
	return img.Image, nil
}

// Remove removes an image that no desktop and no snapshot has. Its boot snapshots
// go with it.
func (s *Shelf) Remove(ctx context.Context, ref string) error {
	img, err := s.Stored.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	kept, err := s.Store.Snapshots(ctx)
	if err != nil {
		return err
	}
	err = s.Stored.Remove(ctx, ref, func(digest string) string {
		if users := s.Users()[digest]; len(users) > 0 {
			return "desktop " + users[0]
		}
		if s.holds.has(digest) {
			return "a desktop that is being created"
		}
		for _, k := range kept {
			if k.ImageDigest == digest && k.Kind != store.KindBoot {
				return "snapshot " + cmp.Or(k.Name, k.ID)
			}
		}
		return ""
	})
	if err != nil {
		return err
	}
	if _, err := s.Stored.Resolve(ctx, img.Digest); errors.Is(err, image.ErrNotFound) {
		s.Gone(ctx, img.Digest)
	}
	return nil
}
