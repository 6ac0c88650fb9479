// Package activity knows whether anybody uses a desktop: it counts the calls that
// are under way, streams and running programs among them.
package activity

import (
	"sync"
	"time"
)

// Meter is the activity of one desktop. Safe for concurrent use.
type Meter struct {
	now func() time.Time

	mu   sync.Mutex
	open int       // guarded by mu; calls under way
	last time.Time // guarded by mu; when the last one began or ended
}

// New makes a meter that begins with activity.
func New(now func() time.Time) *Meter { return &Meter{now: now, last: now()} }

// Touch is a call that is over at once.
func (m *Meter) Touch() { m.Enter()() }

// Enter begins a call. leave ends it, and may be called again.
func (m *Meter) Enter() (leave func()) {
	m.add(1)
	return sync.OnceFunc(func() { m.add(-1) })
}

func (m *Meter) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open += n
	m.last = m.now()
}

// Last says when somebody did something last, and whether a call is under way.
func (m *Meter) Last() (last time.Time, busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.open > 0
}
