package clipboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

// answerLimit bounds the wait for each answer of the clipboard's owner.
const answerLimit = 5 * time.Second

var errNoAnswer error = &guest.Error{Code: guest.CodeDeadline, Message: "read clipboard: its owner does not answer"}

// Clipboard is a selection, CLIPBOARD in the first place. Safe for concurrent use; Run must be
// running.
type Clipboard struct {
	d   *display.Display
	log *slog.Logger
	win xproto.Window // asks and owns
	sel xproto.Atom

	events  chan numbered
	arrived atomic.Uint64 // events so far
	ask     chan struct{} // holds one token: whoever has it asks, owns or lends
	held    []held        // in the order they came; Run's alone

	mu        sync.Mutex
	owned     contents // nil: another program owns it, or nobody
	since     xproto.Timestamp
	transfers map[place]*outgoing
	watch     func(outcome) // told of requests of what we own; may be nil
	serial    int
}

// numbered is an event with its number in the order of their arrival.
type numbered struct {
	xgb.Event

	n uint64
}

// place is where a transfer goes.
type place struct {
	window   xproto.Window
	property xproto.Atom
}

type outgoing struct {
	*transfer
	kind  xproto.Atom
	text  bool
	asked uint64 // number of the request
}

// held is a request for a place whose former answer has not been taken away yet.
type held struct {
	xproto.SelectionRequestEvent

	n     uint64
	until time.Time // then it is answered all the same
}

// outcome is what happened to a request for our contents.
type outcome struct {
	client uint32
	asked  uint64 // number of the request
	done   bool   // the requestor has all of a text; else it just asked
}

// Selections.
const (
	Main    = "CLIPBOARD" // what Ctrl+C fills
	Primary = "PRIMARY"   // what is marked with the mouse; old terminals paste it
)

// New makes the window that owns a selection and asks for it. A nil logger logs
// nothing.
func New(d *display.Display, selection string, log *slog.Logger) (*Clipboard, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	sel, err := d.Atom(selection)
	if err != nil {
		return nil, err
	}
	win, err := xproto.NewWindowId(d.Conn)
	if err != nil {
		return nil, display.Wrap(err, "make clipboard window")
	}
	err = xproto.CreateWindowChecked(d.Conn, 0, win, d.Root, -10, -10, 1, 1, 0, xproto.WindowClassInputOnly,
		xproto.WindowNone, xproto.CwOverrideRedirect|xproto.CwEventMask, []uint32{1, xproto.EventMaskPropertyChange}).Check()
	if err != nil {
		return nil, display.Wrap(err, "make clipboard window")
	}
	c := &Clipboard{
		d: d, log: log, win: win, sel: sel,
		events: make(chan numbered, 4096), ask: make(chan struct{}, 1), transfers: map[place]*outgoing{},
	}
	c.ask <- struct{}{}
	return c, nil
}

// Run serves what the clipboard owns until ctx ends or the display is lost.
func (c *Clipboard) Run(ctx context.Context) error {
	cancel := c.d.Subscribe(func(ev xgb.Event) {
		switch ev.(type) {
		case xproto.SelectionRequestEvent, xproto.SelectionClearEvent, xproto.PropertyNotifyEvent:
		default:
			return
		}
		select {
		case c.events <- numbered{ev, c.arrived.Add(1)}:
		case <-ctx.Done():
		}
	})
	defer cancel()
	sweep := time.NewTicker(stale)
	defer sweep.Stop()
	for {
		var overdue <-chan time.Time
		if len(c.held) > 0 {
			overdue = time.After(time.Until(c.held[0].until))
		}
		select {
		case ev := <-c.events:
			c.handle(ev)
		case <-overdue:
			first := c.held[0]
			c.held = c.held[1:]
			c.request(first.SelectionRequestEvent, first.n)
		case <-sweep.C:
			c.expire(time.Now())
		case <-ctx.Done():
			return nil
		case <-c.d.Done():
			return display.ErrLost
		}
	}
}

// turn waits for the right to ask or own; the returned function gives it back.
func (c *Clipboard) turn(ctx context.Context) (func(), error) {
	select {
	case <-c.ask:
		return func() { c.ask <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the clipboard: %w", context.Cause(ctx))
	}
}

// Set owns the clipboard with one content: text/plain, text/html or image/png.
// It is served for as long as Run runs and nobody else takes the clipboard.
func (c *Clipboard) Set(ctx context.Context, content guest.Clipboard) error {
	cs, err := newContents(content)
	if err != nil {
		return err
	}
	done, err := c.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return c.insist(ctx, cs)
}

// insist owns the selection with cs, also when another program takes it at the same
// moment: what it copied is older than what is wanted now.
func (c *Clipboard) insist(ctx context.Context, cs contents) error {
	const tries = 5
	for try := 1; ; try++ {
		err := c.own(ctx, cs)
		if try == tries || !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
			return err
		}
	}
}

// own takes the selection with cs.
func (c *Clipboard) own(ctx context.Context, cs contents) error {
	at, err := c.now(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.owned, c.since = cs, at
	c.mu.Unlock()
	if err := xproto.SetSelectionOwnerChecked(c.d.Conn, c.win, c.sel, at).Check(); err != nil {
		return display.Wrap(err, "own clipboard")
	}
	owner, err := c.owner()
	if err != nil {
		return err
	}
	if owner != c.win {
		return &guest.Error{Code: guest.CodeBusy, Message: "own clipboard: another program took it; try again"}
	}
	return nil
}

// disown leaves the clipboard without an owner.
func (c *Clipboard) disown(ctx context.Context) error {
	at, err := c.now(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.owned = nil
	c.mu.Unlock()
	return display.Wrap(xproto.SetSelectionOwnerChecked(c.d.Conn, xproto.WindowNone, c.sel, at).Check(), "leave clipboard")
}

func (c *Clipboard) owner() (xproto.Window, error) {
	r, err := xproto.GetSelectionOwner(c.d.Conn, c.sel).Reply()
	if err != nil {
		return 0, display.Wrap(err, "read clipboard owner")
	}
	return r.Owner, nil
}

// mine returns our contents, nil when we do not own the clipboard.
func (c *Clipboard) mine() contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned
}

// now reads the server's time: it comes with a change of a property.
func (c *Clipboard) now(ctx context.Context) (xproto.Timestamp, error) {
	prop, err := c.d.Atom("DESKFORK_TIME")
	if err != nil {
		return 0, err
	}
	got := make(chan xproto.Timestamp, 1)
	cancel := c.d.Subscribe(func(ev xgb.Event) {
		if e, ok := ev.(xproto.PropertyNotifyEvent); ok && e.Window == c.win && e.Atom == prop {
			select {
			case got <- e.Time:
			default:
			}
		}
	})
	defer cancel()
	xproto.ChangeProperty(c.d.Conn, xproto.PropModeReplace, c.win, prop, xproto.AtomString, 8, 0, nil)
	return wait(ctx, c.d, got, &guest.Error{Code: guest.CodeDeadline, Message: "read the X server's time: no answer"})
}

// wait takes one value of ch, for at most answerLimit: then late.
func wait[T any](ctx context.Context, d *display.Display, ch <-chan T, late error) (T, error) {
	t := time.NewTimer(answerLimit)
	defer t.Stop()
	var zero T
	select {
	case v := <-ch:
		return v, nil
	case <-t.C:
		return zero, late
	case <-ctx.Done():
		return zero, fmt.Errorf("wait for the clipboard: %w", context.Cause(ctx))
	case <-d.Done():
		return zero, display.ErrLost
	}
}
