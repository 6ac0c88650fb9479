// Package host holds the use cases of Deskfork: it is the only place where the
// nouns (machines, guests, screens, images) meet.
//
// Each desktop belongs to one goroutine, its actor (actor.go): it starts the
// machine, brings it up stage by stage, watches it and removes it. Callers never
// wait for a desktop other than the one they named. What callers see is a copy
// of the actor's view, which is also written to the store, so that a daemon that
// died finds its desktops again.
//
// Lock order: Host.mu, then desktop.save, then desktop.mu. No lock is held while
// a machine or a guest is called.
package host
