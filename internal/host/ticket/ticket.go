// Package ticket gives out short-lived rights to one desktop, for browsers, which
// can carry no bearer token in a link: to reach one of its ports, or to watch and
// control it in a role. Those of people live through a restart of the host, those of
// ports do not.
package ticket

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/token"
)

// Errors that callers branch on.
var (
	ErrUnknown = errors.New("ticket unknown or expired")
	ErrTooMany = errors.New("too many tickets of the project are valid now")
	ErrInUse   = errors.New("too many browsers use the ticket now")
)

// DefaultTTL is how long a ticket is valid when nothing is said.
const DefaultTTL = 10 * time.Minute

// maxTickets bounds what is kept of one project, so that none can take the room
// of another.
const maxTickets = 1000

// maxSessions bounds how many browsers use one ticket.
const maxSessions = 64

// Grant is what a ticket opens.
type Grant struct {
	ID      string    `json:"id"`      // names it without opening anything
	Desktop string    `json:"desktop"` // id; empty: every desktop of the project
	Project string    `json:"project"`
	Token   string    `json:"token"`             // id of the bearer token that asked for it
	Port    int       `json:"port,omitempty"`    // 0: it has a role
	Role    Role      `json:"role,omitempty"`    // empty: it opens a port
	Session string    `json:"session,omitempty"` // of a browser that exchanged the ticket; empty: the ticket itself
	Expires time.Time `json:"expires"`

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
	now   func() time.Time
	ended func(id string)

	mu     sync.Mutex
	file   string                      // guarded by mu; empty: nothing is kept
	grants map[[sha256.Size]byte]Grant // guarded by mu
}

// New makes an empty book. ended hears of tickets that are revoked, by their ids,
// perhaps more than once; nil: nobody does.
func New(now func() time.Time, ended func(id string)) *Book {
	if ended == nil {
		ended = func(string) {}
	}
	return &Book{now: now, ended: ended, grants: make(map[[sha256.Size]byte]Grant)}
}

// Issue makes a ticket that is valid for ttl (0: DefaultTTL).
func (b *Book) Issue(g Grant, ttl time.Duration) (string, error) {
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	g.ID, g.Expires = token.NewID('k'), b.now().Add(ttl)
	g.ended, g.end = context.WithCancel(context.Background())
	secret := token.Secret()
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for k, old := range b.grants {
		switch {
		case !b.now().Before(old.Expires):
			b.drop(k, old)
		case old.Project == g.Project && old.Session == "":
			n++
		}
	}
	if n >= maxTickets {
		return "", ErrTooMany
	}
	hash := sha256.Sum256([]byte(secret))
	b.grants[hash] = g
	if g.Role != "" {
		if err := b.save(); err != nil {
			b.drop(hash, g)
			return "", err
		}
	}
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

// Exchange makes a secret for one browser of a ticket that has a role. It ends with
// the ticket.
func (b *Book) Exchange(secret string) (string, Grant, error) {
	g, err := b.Check(secret)
	if err == nil && (g.Role == "" || g.Session != "") {
		err = ErrUnknown
	}
	if err != nil {
		return "", Grant{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, other := range b.grants {
		if other.ID == g.ID {
			n++
		}
	}
	if n > maxSessions {
		return "", Grant{}, ErrInUse
	}
	if g.ended.Err() != nil { // revoked meanwhile
		return "", Grant{}, ErrUnknown
	}
	g.Session = token.NewID('v')
	made := token.Secret()
	hash := sha256.Sum256([]byte(made))
	b.grants[hash] = g
	if err := b.save(); err != nil {
		delete(b.grants, hash)
		return "", Grant{}, err
	}
	return made, g, nil
}

// Of lists the tickets of a desktop, or with "" those of the project alone; those that
// end first before the others.
func (b *Book) Of(project, desktop string) []Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Grant
	for _, g := range b.grants {
		if g.Project == project && g.Desktop == desktop && g.Session == "" && b.now().Before(g.Expires) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b Grant) int { return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID)) })
	return list
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

// RevokeID ends one ticket of a desktop, or with "" of the project alone, and what
// was begun under it.
func (b *Book) RevokeID(project, desktop, id string) (existed bool) {
	return b.revoke(func(g Grant) bool { return g.Project == project && g.Desktop == desktop && g.ID == id })
}

func (b *Book) revoke(which func(Grant) bool) (found bool) {
	b.mu.Lock()
	var ended []string
	for k, g := range b.grants {
		if which(g) {
			b.drop(k, g)
			ended = append(ended, g.ID)
		}
	}
	if len(ended) > 0 {
		b.saveLess()
	}
	b.mu.Unlock()
	for _, id := range ended {
		b.ended(id)
	}
	return len(ended) > 0
}
