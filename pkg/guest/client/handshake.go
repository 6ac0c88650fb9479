package client

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Handshake prepares the guest for its user. A token in it is the client's own
// from then on; after a failure both are tried. Now, if it is set, is the host's
// clock at the call: it is carried forward to when the request is sent, and the
// guest's clock is then moved until it agrees; how well is told by the answer's
// Skew and Margin.
func (c *Client) Handshake(ctx context.Context, h guest.Handshake) (guest.Handshaken, error) {
	if h.Token != "" {
		c.mu.Lock()
		if c.tokens[0] != h.Token {
			c.tokens = []string{c.tokens[0], h.Token}
		}
		c.mu.Unlock()
	}
	k := clock{c: c, base: h.Now, at: time.Now()}
	var done guest.Handshaken
	seen, err := k.exchange(ctx, guest.OpHandshake, func() any {
		if !h.Now.IsZero() {
			h.Now = k.now()
		}
		return h
	}, &done, &done.ClockState)
	if err != nil {
		return guest.Handshaken{}, err
	}
	if h.Token != "" {
		c.mu.Lock()
		c.tokens = []string{h.Token}
		c.mu.Unlock()
	}
	if h.Now.IsZero() || done.Clock.IsZero() { // the guest is older than its host
		return done, nil
	}
	seen, err = k.settle(ctx, seen)
	done.Skew, done.Margin = seen.skew, seen.margin
	return done, err
}

// clock compares the guest's clock with the host's.
type clock struct {
	c    *Client
	base time.Time // the host's clock
	at   time.Time // when it said so
}

func (k clock) now() time.Time { return k.base.Add(time.Since(k.at)) }

// reading says that the guest's clock is ahead by skew, give or take margin.
type reading struct{ skew, margin time.Duration }

// exchange makes a call whose answer tells the guest's clock at state.
func (k clock) exchange(ctx context.Context, op string, params func() any, out any, state *guest.ClockState) (reading, error) {
	var sent time.Time
	p, err := k.c.openLate(ctx, op, func() any {
		sent = k.now()
		return params()
	}, 0)
	if err != nil {
		return reading{}, err
	}
	if err := await(ctx, p, op, out); err != nil {
		return reading{}, err
	}
	came := k.now()
	// The answer was under way for all of this time, or for none of it.
	way := max(0, came.Sub(sent)-state.Served)
	return reading{skew: state.Clock.Sub(came.Add(-way / 2)), margin: way / 2}, nil
}

// settle moves the guest's clock until it agrees with the host's as well as
// some round trips can tell. Steps are relative, so that it does not matter how
// long they are on their way.
func (k clock) settle(ctx context.Context, best reading) (reading, error) {
	const (
		near   = 2 * time.Millisecond
		margin = 8 * time.Millisecond
		rounds = 8
	)
	for range rounds {
		if best.skew.Abs() <= near && best.margin <= margin {
			break
		}
		step := -best.skew
		if step.Abs() <= near {
			step = 0 // only look again
		}
		var state guest.ClockState
		seen, err := k.exchange(ctx, guest.OpSetClock, func() any { return guest.ClockParams{Step: step} }, &state, &state)
		if err != nil {
			return best, err
		}
		best.skew += step
		if seen.margin < best.margin {
			best = seen
		}
	}
	return best, nil
}
