package clipboard

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
)

const (
	saveLimit  = 3 * time.Second        // for saving what another program owns
	fetchLimit = 8 * time.Second        // for the target to fetch the text
	quiet      = 200 * time.Millisecond // without a request after the text was fetched
	restLimit  = 5 * time.Second        // for putting the former contents back
)

// Lend owns the clipboard with text, calls paste, waits until client has
// fetched the text, and puts the former contents back, whatever happens.
// Requests of others (clipboard managers) do not count. fetched is false when
// client did not fetch it in time.
func (c *Clipboard) Lend(ctx context.Context, text string, client uint32, paste func() error) (fetched bool, err error) {
	done, err := c.turn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	before, err := c.save(ctx)
	if err != nil {
		return false, err
	}
	asked := make(chan outcome, 256)
	c.observe(func(o outcome) {
		if o.client == client {
			select {
			case asked <- o:
			default:
			}
		}
	})
	defer c.observe(nil)
	if err := c.own(ctx, textContents([]byte(text))); err != nil {
		return false, err
	}
	defer func() {
		// The former contents come back even when the request was given up.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), restLimit)
		defer cancel()
		if e := c.restore(back, before); err == nil {
			err = e
		}
	}()
	if err := paste(); err != nil {
		return false, err
	}
	return c.fetchedBy(ctx, asked)
}

func (c *Clipboard) observe(f func(outcome)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = f
}

// fetchedBy waits for a whole text to be fetched and then for quiet: some
// programs ask twice.
func (c *Clipboard) fetchedBy(ctx context.Context, asked <-chan outcome) (bool, error) {
	got := false
	t := time.NewTimer(fetchLimit)
	defer t.Stop()
	for {
		select {
		case o := <-asked:
			got = got || o.done
			if got {
				t.Reset(quiet)
			}
		case <-t.C:
			return got, nil
		case <-ctx.Done():
			return got, context.Cause(ctx)
		case <-c.d.Done():
			return got, display.ErrLost
		}
	}
}

// save returns the clipboard's contents; nil when it has none. What its owner
// does not give in time is left out.
func (c *Clipboard) save(ctx context.Context) (contents, error) {
	if cs := c.mine(); cs != nil {
		return cs, nil
	}
	limit, cancel := context.WithTimeoutCause(ctx, saveLimit, errNoAnswer)
	defer cancel()
	targets, err := c.targets(limit)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, display.ErrLost) {
			return nil, err
		}
		return nil, nil // empty, or its owner does not answer: nothing to put back
	}
	cs := contents{}
	size := 0
	for _, t := range targets {
		if !isText(t) && !strings.Contains(t, "/") {
			continue
		}
		it, err := c.fetch(limit, t)
		if errors.Is(err, display.ErrLost) {
			return nil, err
		}
		if err != nil || size+len(it.data) > MaxSize {
			continue
		}
		size += len(it.data)
		cs[t] = it
	}
	if len(cs) == 0 {
		return nil, nil
	}
	return cs, nil
}

func (c *Clipboard) restore(ctx context.Context, cs contents) error {
	if c.mine() == nil { // somebody copied meanwhile: that is newer
		return nil
	}
	if cs == nil {
		return c.disown(ctx)
	}
	return c.own(ctx, cs)
}
