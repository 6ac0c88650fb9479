// Package ticket gives out short-lived rights to one port of one desktop, for
// browsers, which can carry no bearer token in a link. Tickets live in memory: a
// restart of the host ends them.
package ticket

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/token"
)

// Errors that callers branch on.
var (
	ErrUnknown = errors.New("ticket unknown or expired")
	ErrTooMany = errors.New("too many tickets are valid now")
)

// DefaultTTL is how long a ticket is valid when nothing is said.
const DefaultTTL = 10 * time.Minute

// maxTickets bounds what is kept.
const maxTickets = 10_000

// Grant is what a ticket opens.
type Grant struct {
	Desktop string // id
	Project string
	Port    int
	Expires time.Time
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
	secret := token.Secret()
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, old := range b.grants {
		if !b.now().Before(old.Expires) {
			delete(b.grants, k)
		}
	}
	if len(b.grants) >= maxTickets {
		return "", ErrTooMany
	}
	b.grants[sha256.Sum256([]byte(secret))] = g
	return secret, nil
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

// Revoke ends every ticket of a desktop.
func (b *Book) Revoke(desktop string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, g := range b.grants {
		if g.Desktop == desktop {
			delete(b.grants, k)
		}
	}
}
