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
	// Prompt says that it has inserted a text once it has fetched it.
	Prompt bool
}

// Lend owns the clipboard with one text after the other, calls settle once and paste
// with the index of each, waits until the borrower has fetched that, and puts the
// former contents back at the end, whatever happens.
// Requests of others (clipboard managers) do not count, nor do those that came
// before settle returned: programs look at whatever is new in the clipboard, so
// settle waits until client has read of that. It is called again before the former
// contents come back. fetched is how many of the texts the client has fetched: it
// ends with the first that was not fetched in time.
//
// Who put the contents back between two fetches of one paste would have those
// pasted.
func (c *Clipboard) Lend(ctx context.Context, texts []string, to Borrower, settle func() error, paste func(i int) error) (fetched int, err error) {
	done, err := c.turn(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	former, err := c.save(ctx)
	if err != nil {
		return 0, err
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
	if err := c.insist(ctx, textContents([]byte(texts[0]))); err != nil {
		return 0, err
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
		return 0, err
	}
	fetched, err = c.inTurn(ctx, texts, to, asked, paste)
	if err != nil || fetched < len(texts) {
		return fetched, err
	}
	return fetched, settle()
}

// inTurn has texts pasted and fetched; the first is owned already.
func (c *Clipboard) inTurn(ctx context.Context, texts []string, to Borrower, asked <-chan outcome, paste func(i int) error) (int, error) {
	for i, text := range texts {
		if i > 0 && !c.swap(textContents([]byte(text))) {
			return i, nil // somebody has copied meanwhile
		}
		before := c.arrived.Load()
		if err := paste(i); err != nil {
			return i, err
		}
		ok, err := c.fetchedBy(ctx, asked, before, to.Fetches, !to.Prompt || i == len(texts)-1)
		if err != nil || !ok {
			return i, err
		}
	}
	return len(texts), nil
}

// swap replaces what is owned, and says whether it was still owned. Nobody is told of
// a new owner: who pastes asks anew.
func (c *Clipboard) swap(cs contents) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned == nil {
		return false
	}
	c.owned = cs
	return true
}

func (c *Clipboard) observe(f func(outcome)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = f
}

// fetchedBy waits for a whole text to be fetched by a request after the one
// numbered before, and then, if told so, for quiet. One that was slow to ask, on a
// busy host, is slow to ask again.
func (c *Clipboard) fetchedBy(ctx context.Context, asked <-chan outcome, before uint64, times int, rest bool) (bool, error) {
	got, began := 0, time.Now()
	t := time.NewTimer(fetchLimit)
	defer t.Stop()
	for {
		select {
		case o := <-asked:
			if o.done && o.asked > before {
				got++
			}
			if got > 0 && !rest {
				return true, nil
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
