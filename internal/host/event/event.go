// Package event keeps the host's log of what happened and hands it to whoever
// watches.
//
// The log is a ring of the newest events. A subscriber reads from the ring at
// its own pace and never makes a publisher wait: one that falls behind the ring
// is cut off with ErrLost, and a client that comes back with its last seen
// number is told of the gap by an event of type TypeLost.
package event

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Types of events.
const (
	TypeCreated     = "desktop.created"
	TypeStage       = "desktop.stage"
	TypeReady       = "desktop.ready"
	TypeFailed      = "desktop.failed"
	TypeStopped     = "desktop.stopped"
	TypeDeleted     = "desktop.deleted"
	TypeAdopted     = "desktop.adopted"
	TypeWaiting     = "desktop.waiting" // a start waits for something that takes long
	TypeForked      = "desktop.forked"  // of the parent
	TypePaused      = "desktop.paused"
	TypeResumed     = "desktop.resumed" // from a pause or from suspension
	TypeSuspended   = "desktop.suspended"
	TypeRestored    = "desktop.restored"
	TypeExpiring    = "desktop.expiring" // its policy is about to act
	TypeExecStarted = "exec.started"
	TypeExecEnded   = "exec.ended"

	// Changes of the control lease; TypeControlAsked tells its holder that somebody
	// else wants it, TypeControlLost that the host ended it.
	TypeControlTaken    = "control.taken"
	TypeControlGiven    = "control.given"
	TypeControlReleased = "control.released"
	TypeControlLost     = "control.lost"
	TypeControlAsked    = "control.asked"

	// TypeInputBegun tells what is played on a desktop through the API, so that people
	// who watch see whose it is.
	TypeInputBegun = "input.begun"

	TypeViewerJoined = "viewer.joined"
	TypeViewerLeft   = "viewer.left"

	TypeRecordingStarted = "recording.started"
	TypeRecordingEnded   = "recording.ended"
	TypeRecordingRemoved = "recording.removed"

	TypeSnapshotCreated = "snapshot.created"
	TypeSnapshotRemoved = "snapshot.removed"

	// TypeLost tells a subscriber that events between those it saw and the
	// following ones are gone; its Seq is that of the last lost one.
	TypeLost = "events.lost"
)

// ErrLost says that a subscriber was too slow: events it had not read were
// overwritten.
var ErrLost = errors.New("subscriber fell behind the event log")

// DefaultSize is the number of events kept when none is stated.
const DefaultSize = 4096

type entry struct {
	api.Event

	project string
}

// Log is a ring of events. Safe for concurrent use.
type Log struct {
	now func() time.Time

	mu   sync.Mutex
	ring []entry       // guarded by mu; the event of number s lies at s % len
	next uint64        // guarded by mu; number of the next event
	wake chan struct{} // guarded by mu; closed and replaced at each publication
}

// New makes a log that keeps size events (0: DefaultSize). Numbers start at
// first, so that they can go on growing over restarts.
func New(size int, first uint64, now func() time.Time) *Log {
	if size <= 0 {
		size = DefaultSize
	}
	return &Log{now: now, ring: make([]entry, size), next: max(first, 1), wake: make(chan struct{})}
}

// Publish adds an event and returns at once. Project limits who sees it.
func (l *Log) Publish(project, typ, desktop string, data map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := api.Event{Seq: l.next, Time: l.now().UTC(), Type: typ, Desktop: desktop, Data: data}
	l.ring[l.next%uint64(len(l.ring))] = entry{Event: e, project: project}
	l.next++
	close(l.wake)
	l.wake = make(chan struct{})
}

// Last is the number of the newest event; 0 before the first.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}

// Filter says which events a subscriber sees.
type Filter struct {
	Project string // empty: all
	Desktop string // empty: all
}

func (f Filter) match(e entry) bool {
	return (f.Project == "" || f.Project == e.project) && (f.Desktop == "" || f.Desktop == e.Desktop)
}

// Subscription reads a log in order. It belongs to one goroutine.
type Subscription struct {
	log    *Log
	filter Filter
	at     uint64 // number of the next event to look at
	gap    uint64 // last lost event to report first; 0: none
}

// Subscribe reads events after number after.
func (l *Log) Subscribe(filter Filter, after uint64) *Subscription {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Subscription{log: l, filter: filter, at: after + 1}
	oldest := l.oldest()
	if s.at < oldest && after > 0 {
		s.gap = oldest - 1
	}
	// A number from the future comes from another life of the log.
	if s.at > l.next {
		s.gap, s.at = l.next-1, l.next
	}
	s.at = max(s.at, oldest)
	return s
}

// oldest is the number of the oldest event kept. l.mu is held.
func (l *Log) oldest() uint64 {
	n := uint64(len(l.ring))
	first := uint64(1)
	if l.next > n {
		first = l.next - n
	}
	// After a restart the ring starts empty at a later number.
	for first < l.next && l.ring[first%n].Seq != first {
		first++
	}
	return first
}

// Next waits for the next event that passes the filter. ErrLost when this
// subscriber was too slow; the context's error when that ends first.
func (s *Subscription) Next(ctx context.Context) (api.Event, error) {
	if s.gap > 0 {
		e := api.Event{Seq: s.gap, Time: s.log.now().UTC(), Type: TypeLost}
		s.gap = 0
		return e, nil
	}
	for {
		e, wake, err := s.poll()
		if err != nil || wake == nil {
			return e, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return api.Event{}, ctx.Err()
		}
	}
}

// poll returns an event, or a channel to wait on before it is called again.
func (s *Subscription) poll() (api.Event, <-chan struct{}, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	n := uint64(len(l.ring))
	if l.next > n && s.at < l.next-n {
		return api.Event{}, nil, ErrLost
	}
	for ; s.at < l.next; s.at++ {
		if e := l.ring[s.at%n]; s.filter.match(e) {
			s.at++
			return e.Event, nil, nil
		}
	}
	return api.Event{}, l.wake, nil
}
