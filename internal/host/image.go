package host

import (
	"context"
	"sync"

	"github.com/deskfork/deskfork/pkg/api"
)

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

// resolve finds an image and holds it against removal until release.
func (h *Host) resolve(ctx context.Context, ref string) (img Image, release func(), err error) {
	img, err = h.cfg.Images.Resolve(ctx, ref)
	if err != nil {
		return Image{}, nil, err
	}
	release = h.holds.take(img.Digest)
	// It may have gone before it was held.
	if _, err := h.cfg.Images.Resolve(ctx, img.Digest); err != nil {
		release()
		return Image{}, nil, err
	}
	return img, release, nil
}

// users are the desktops, of all projects, that have an image, by digest.
func (h *Host) users() map[string][]string {
	by := map[string][]string{}
	for _, d := range h.all() {
		v := d.snapshot()
		by[v.ImageDigest] = append(by[v.ImageDigest], v.ID)
	}
	return by
}

// Images lists the stored images, newest first.
func (h *Host) Images(ctx context.Context) ([]api.Image, error) {
	list, err := h.cfg.Images.List(ctx)
	if err != nil {
		return nil, err
	}
	users := h.users()
	for i := range list {
		list[i].InUse = len(users[list[i].Digest])
	}
	return list, nil
}

// Shelf is the images.
type Shelf struct{ h *Host }

// Get describes one image by name, name:tag or digest.
func (s *Shelf) Get(ctx context.Context, ref string) (api.Image, error) {
	img, err := s.h.cfg.Images.Resolve(ctx, ref)
	if err != nil {
		return api.Image{}, err
	}
	img.InUse = len(s.h.users()[img.Digest])
	return img.Image, nil
}

// Remove removes an image that no desktop has.
func (s *Shelf) Remove(ctx context.Context, ref string) error {
	return s.h.cfg.Images.Remove(ctx, ref, func(digest string) string {
		if users := s.h.users()[digest]; len(users) > 0 {
			return "desktop " + users[0]
		}
		if s.h.holds.has(digest) {
			return "a desktop that is being created"
		}
		return ""
	})
}
