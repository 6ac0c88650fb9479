// Package ticket gives out short-lived rights to one port of one desktop, for
// browsers, which can carry no bearer token in a link. Tickets live in memory: a
// restart of the host ends them.
package ticket

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/token"
)

// Errors that callers branch on.
var (
	ErrUnknown = errors.New("ticket unknown or expired")
	ErrTooMany = errors.New("too many tickets of the project are valid now")
)

// DefaultTTL is how long a ticket is valid when nothing is said.
const DefaultTTL = 10 * time.Minute

// maxTickets bounds what is kept of one project, so that none can take the room
// of another.
const maxTickets = 1000

// Grant is what a ticket opens.
type Grant struct {
	Desktop string // id
	Project string
	Token   string // id of the bearer token that asked for it
	Port    int
	Expires time.Time

	ended context.Context // ends when the ticket is revoked; nil: it cannot be
	end   context.CancelFunc
}

// Bind makes a context that ends with the ticket: when it expires, or is
// revoked.
func (g Grant) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(ctx, g.Expires)
	if g.ended == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(g.ended, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Book keeps tickets by the hash of their secret. Safe for concurrent use.
type Book struct {
	now func() time.Time

	mu     sync.Mutex
	grants map[[sha256.Size]byte]Grant // guarded by mu
}

// New makes an empty book.
func New(now func() time.Time) *Book {
	return &Book{now: now, grants: make(map[[sha256.Size]byte]Grant)}
}

// Issue makes a ticket that is valid for ttl (0: DefaultTTL).
func (b *Book) Issue(g Grant, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	g.Expires = b.now().Add(ttl)
	g.ended, g.end = context.WithCancel(context.Background())
	secret := token.Secret()
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for k, old := range b.grants {
		switch {
		case !b.now().Before(old.Expires):
			b.drop(k, old)
		case old.Project == g.Project:
			n++
		}
	}
	if n >= maxTickets {
		return "", ErrTooMany
	}
	b.grants[sha256.Sum256([]byte(secret))] = g
	return secret, nil
}

// drop ends a ticket; b.mu is held.
func (b *Book) drop(k [sha256.Size]byte, g Grant) {
	delete(b.grants, k)
	g.end()
}

// Check answers what a ticket opens, or ErrUnknown.
func (b *Book) Check(secret string) (Grant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.grants[sha256.Sum256([]byte(secret))]
	if !ok || !b.now().Before(g.Expires) {
		return Grant{}, ErrUnknown
	}
	return g, nil
}

// Revoke ends every ticket of a desktop, and what was begun under them.
func (b *Book) Revoke(desktop string) {
	b.revoke(func(g Grant) bool { return g.Desktop == desktop })
}

// RevokeToken ends every ticket that a bearer token asked for, and what was
// begun under them.
func (b *Book) RevokeToken(id string) {
	b.revoke(func(g Grant) bool { return g.Token == id })
}

func (b *Book) revoke(which func(Grant) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, g := range b.grants {
		if which(g) {
			b.drop(k, g)
		}
	}
}
