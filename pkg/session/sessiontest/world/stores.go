package world

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// The stores of a world: hooks before and after each call of the real ones. An
// error of an After hook is a lost answer.

type hookedFences struct {
	session.Fences

	w *World
}

type hookedOrphans struct {
	session.Orphans

	w *World
}

type hookedIntents struct {
	session.Intents

	w *World
}

// store is do for an effect that waits on its own.
func store[T any](ctx context.Context, w *World, call string, effect func() (T, error)) (T, error) {
	var v, none T
	var failed error
	// The world's lock must not be held while a database is asked.
	err := w.do(ctx, call, nil, func() error {
		v, failed = effect()
		return failed
	})
	if err != nil {
		return none, err
	}
	return v, nil
}

func plain(f func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, f() }
}

// Acquire implements session.Fences.
func (f hookedFences) Acquire(ctx context.Context, s session.Scope, by session.Claimant, ttl time.Duration) (session.Claim, error) {
	return store(ctx, f.w, "fences.acquire", func() (session.Claim, error) { return f.Fences.Acquire(ctx, s, by, ttl) })
}

// Renew implements session.Fences.
func (f hookedFences) Renew(ctx context.Context, fence session.Fence, ttl time.Duration) (time.Duration, error) {
	return store(ctx, f.w, "fences.renew", func() (time.Duration, error) { return f.Fences.Renew(ctx, fence, ttl) })
}

// Current implements session.Fences.
func (f hookedFences) Current(ctx context.Context, fence session.Fence) error {
	_, err := store(ctx, f.w, "fences.current", plain(func() error { return f.Fences.Current(ctx, fence) }))
	return err
}

// Publish implements session.Fences.
func (f hookedFences) Publish(ctx context.Context, fence session.Fence, d session.Draft) (session.Publication, error) {
	return store(ctx, f.w, "fences.publish", func() (session.Publication, error) { return f.Fences.Publish(ctx, fence, d) })
}

// Release implements session.Fences.
func (f hookedFences) Release(ctx context.Context, fence session.Fence) error {
	_, err := store(ctx, f.w, "fences.release", plain(func() error { return f.Fences.Release(ctx, fence) }))
	return err
}

// Published implements session.Fences.
func (f hookedFences) Published(ctx context.Context, s session.Scope) (*session.Publication, error) {
	return store(ctx, f.w, "fences.published", func() (*session.Publication, error) { return f.Fences.Published(ctx, s) })
}

// Enqueue implements session.Orphans.
func (o hookedOrphans) Enqueue(ctx context.Context, orphan session.Orphan) error {
	_, err := store(ctx, o.w, "orphans.enqueue", plain(func() error { return o.Orphans.Enqueue(ctx, orphan) }))
	return err
}

// Resolve implements session.Orphans.
func (o hookedOrphans) Resolve(ctx context.Context, id string) error {
	_, err := store(ctx, o.w, "orphans.resolve", plain(func() error { return o.Orphans.Resolve(ctx, id) }))
	return err
}

// Failed implements session.Orphans.
func (o hookedOrphans) Failed(ctx context.Context, id, lastError string, delay time.Duration) error {
	_, err := store(ctx, o.w, "orphans.failed", plain(func() error { return o.Orphans.Failed(ctx, id, lastError, delay) }))
	return err
}

// Begin implements session.Intents.
func (i hookedIntents) Begin(ctx context.Context, in session.Intent) error {
	_, err := store(ctx, i.w, "intents.begin", plain(func() error { return i.Intents.Begin(ctx, in) }))
	return err
}

// Bind implements session.Intents.
func (i hookedIntents) Bind(ctx context.Context, id string, l session.Lease) error {
	_, err := store(ctx, i.w, "intents.bind", plain(func() error { return i.Intents.Bind(ctx, id, l) }))
	return err
}

// Resolve implements session.Intents.
func (i hookedIntents) Resolve(ctx context.Context, id string) error {
	_, err := store(ctx, i.w, "intents.resolve", plain(func() error { return i.Intents.Resolve(ctx, id) }))
	return err
}
