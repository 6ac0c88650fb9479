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
	fetchLimit = 20 * time.Second       // for the target to fetch the text
	quiet      = 200 * time.Millisecond // without a request after the text was fetched as often as it will be, at least
	doubt      = 2 * time.Second        // the same while it may be fetched again
	longQuiet  = 5 * time.Second        // and at most
	restLimit  = 5 * time.Second        // for putting the former contents back
)

// Borrower is a program that a text is lent to.
type Borrower struct {
	Client uint32 // of the X server
	// Fetches is how often it fetches a text before it inserts it, if it fetches it
	// more than once at all: Chromium shows a page what is to be pasted, and then
	// fetches it anew.
	Fetches int
}

// Lend owns the clipboard with text, calls settle and paste, waits until the borrower
// has fetched the text, and puts the former contents back, whatever happens.
// Requests of others (clipboard managers) do not count, nor do those that came
// before settle returned: programs look at whatever is new in the clipboard, so
// settle waits until client has read of that. It is called again before the former
// contents come back. fetched is false when client did not fetch it in time.
//
// Who put the contents back between two fetches of one paste would have those
// pasted.
func (c *Clipboard) Lend(ctx context.Context, text string, to Borrower, settle, paste func() error) (fetched bool, err error) {
	done, err := c.turn(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	former, err := c.save(ctx)
	if err != nil {
		return false, err
	}
	asked := make(chan outcome, 256)
	c.observe(func(o outcome) {
		if o.client == to.Client {
			select {
			case asked <- o:
			default:
			}
		}
	})
	defer c.observe(nil)
	if err := c.insist(ctx, textContents([]byte(text))); err != nil {
		return false, err
	}
	defer func() {
		// The former contents come back even when the request was given up.
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), restLimit)
		defer cancel()
		if e := c.restore(back, former); err == nil {
			err = e
		}
	}()
	if err := settle(); err != nil {
		return false, err
	}
	before := c.arrived.Load()
	if err := paste(); err != nil {
		return false, err
	}
	fetched, err = c.fetchedBy(ctx, asked, before, to.Fetches)
	if err != nil || !fetched {
		return fetched, err
	}
	return true, settle()
}

func (c *Clipboard) observe(f func(outcome)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = f
}

// fetchedBy waits for a whole text to be fetched by a request after the one
// numbered before, and then for quiet. One that was slow to ask, on a busy host, is
// slow to ask again.
func (c *Clipboard) fetchedBy(ctx context.Context, asked <-chan outcome, before uint64, times int) (bool, error) {
	got, began := 0, time.Now()
	t := time.NewTimer(fetchLimit)
	defer t.Stop()
	for {
		select {
		case o := <-asked:
			if o.done && o.asked > before {
				got++
			}
			least := quiet
			if got < times {
				least = doubt
			}
			if got > 0 {
				t.Reset(min(max(time.Since(began), least), longQuiet))
			}
		case <-t.C:
			return got > 0, nil
		case <-ctx.Done():
			return got > 0, context.Cause(ctx)
		case <-c.d.Done():
			return got > 0, display.ErrLost
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
