package qmp

import "sync/atomic"

// Subscription is a bounded queue of events. A full queue drops its oldest
// event, so that a slow reader stops nobody.
type Subscription struct {
	client  *Client
	ch      chan Event
	dropped atomic.Uint64
}

// Subscribe returns a queue of size events, at least 1, filled from now on. Its channel is
// closed when the connection ends or the subscription is closed.
func (c *Client) Subscribe(size int) *Subscription {
	s := &Subscription{client: c, ch: make(chan Event, max(size, 1))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		close(s.ch)
		return s
	}
	c.subs = append(c.subs, s)
	return s
}

// Events is the queue.
func (s *Subscription) Events() <-chan Event { return s.ch }

// Dropped counts the events that found no room.
func (s *Subscription) Dropped() uint64 { return s.dropped.Load() }

// Close ends the subscription. Idempotent.
func (s *Subscription) Close() {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	for i, other := range s.client.subs {
		if other == s {
			s.client.subs = append(s.client.subs[:i:i], s.client.subs[i+1:]...)
			s.end()
			return
		}
	}
}

// put is called with the client's lock held: the only sender, so it never
// blocks after making room.
func (s *Subscription) put(e Event) {
	for {
		select {
		case s.ch <- e:
			return
		default:
		}
		select {
		case <-s.ch:
			s.dropped.Add(1)
		default:
		}
	}
}

// end is called with the client's lock held, once.
func (s *Subscription) end() { close(s.ch) }
