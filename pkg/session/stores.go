package session

import (
	"context"
	"time"
)

// Claimant is who wants a fence: an owner unique to this attempt, and the token
// that will prove it. A retry with the same claimant is the same claim.
type Claimant struct {
	Owner string
	Token Secret
}

// NewClaimant is a claimant that nobody else is; host is for people.
func NewClaimant(host string) Claimant {
	return Claimant{Owner: host + "/" + NewSecret().Reveal()[:12], Token: NewSecret()}
}

// Fences decides who may change a session. All times are the store's own clock's.
// Implementations keep the hash of a token and never the token.
type Fences interface {
	// Acquire takes a session that is free. The same claimant gets its live fence
	// again, not prolonged; anybody else a *ConflictError.
	Acquire(ctx context.Context, scope Scope, by Claimant, ttl time.Duration) (Claim, error)
	// Renew prolongs to ttl from now and says how long that is; ErrLost.
	Renew(ctx context.Context, f Fence, ttl time.Duration) (time.Duration, error)
	// Current is nil while the fence is held; ErrLost.
	Current(ctx context.Context, f Fence) error
	// Publish checks the fence and moves the pointer in one step; ErrLost. The
	// same draft in the same generation is the same revision. An error other
	// than ErrLost leaves open whether it happened: try again.
	Publish(ctx context.Context, f Fence, d Draft) (Publication, error)
	// Release frees the session at once; the publication stays. A fence that is
	// not held is left alone.
	Release(ctx context.Context, f Fence) error
	// Published is the pointer of a session, nil when there is none.
	Published(ctx context.Context, scope Scope) (*Publication, error)
}

// Orphans is the queue of machines to be reaped.
type Orphans interface {
	// Enqueue is idempotent on the id: again, it refreshes the last error.
	Enqueue(ctx context.Context, o Orphan) error
	// Claim takes up to limit due orphans, longest due first, and hides them from
	// other reapers for hold. Rows that do not make sense are reported as
	// ErrCorrupt beside the good ones, and are never reaped.
	Claim(ctx context.Context, limit int, hold time.Duration) ([]Orphan, error)
	// Resolve forgets an orphan that is reaped.
	Resolve(ctx context.Context, id string) error
	// Failed counts an attempt and makes the orphan due after delay.
	Failed(ctx context.Context, id, lastError string, delay time.Duration) error
	// Backlog is what is waiting, for an alert.
	Backlog(ctx context.Context) (Backlog, error)
}

// Backlog is the state of the orphan queue.
type Backlog struct {
	Total int
	// MaxAttempts is the highest count of failed attempts.
	MaxAttempts int
	// Oldest is the age of the oldest orphan.
	Oldest time.Duration
}

// Intents remembers which machines may exist.
type Intents interface {
	// Begin is idempotent.
	Begin(ctx context.Context, i Intent) error
	// Bind records the machine; ErrNotFound when the intent was recovered by
	// somebody else meanwhile.
	Bind(ctx context.Context, id string, l Lease) error
	// Resolve forgets an intent. Idempotent.
	Resolve(ctx context.Context, id string) error
	// Abandoned lists intents whose tenure does not hold its fence any more, by
	// id, those after the given one; next is empty at the end. Damaged rows are
	// reported as ErrCorrupt beside the good ones.
	Abandoned(ctx context.Context, after string, limit int) (page []Intent, next string, err error)
}

// Allocations finds machines after a crash.
type Allocations interface {
	// Allocated lists the machines that exist under the intent's name.
	Allocated(ctx context.Context, i Intent) ([]Lease, error)
}

// Stores is one database as a host sees it.
type Stores struct {
	Fences  Fences
	Orphans Orphans
	Intents Intents
}
