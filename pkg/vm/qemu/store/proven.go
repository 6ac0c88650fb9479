package store

import (
	"sync"
	"time"
)

const (
	// maxProven bounds what is remembered.
	maxProven = 4096
	// defaultSettled is how old the last change of an inode must be when its file is
	// hashed: of two changes that follow at once both may have the same time.
	defaultSettled = time.Second
)

// proven are files as they were when their hash was found right. Safe for
// concurrent use.
type proven struct {
	settled time.Duration // see defaultSettled

	mu    sync.Mutex
	files map[Path]Part // guarded by mu
}

// has reports whether a file with this digest has not been changed, by anybody and
// in any way, since it was hashed.
func (p *proven) has(path Path, digest string, now Part) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, ok := p.files[path]
	return ok && was.Digest == digest && was.same(now) && was.ctime.Equal(now.ctime) && !now.ctime.IsZero()
}

// add remembers a file whose hashing began then.
func (p *proven) add(path Path, digest string, was Part, began time.Time) {
	if was.ctime.IsZero() || began.Sub(was.ctime) < p.settled {
		return
	}
	was.Digest = digest
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files == nil || len(p.files) >= maxProven {
		p.files = make(map[Path]Part)
	}
	p.files[path] = was
}
