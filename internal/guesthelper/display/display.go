// Package display is a connection to the X server of the desktop session:
// atoms, properties, server time, its death, and X errors as errors of the
// guest protocol. It is the home of what all services of the helper share.
package display

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/pkg/guest"
)

// ErrLost says that the X server is not there, or went away. It is a
// guest.Error of CodeNoDisplay.
var ErrLost error = &guest.Error{Code: guest.CodeNoDisplay, Message: "no display: the X server is not there; it is tried again when it runs"}

// Display is one connection. Its methods are safe for concurrent use. Events
// go to the handlers given to Subscribe; Run must be running for that.
type Display struct {
	Conn  *xgb.Conn
	Name  string // e.g. :0
	Setup *xproto.SetupInfo
	Root  xproto.Window

	done chan struct{} // closed when the connection is gone

	mu       sync.Mutex
	atoms    map[string]xproto.Atom
	names    map[xproto.Atom]string
	handlers map[int]func(xgb.Event)
	next     int

	selecting sync.Mutex
	selected  uint32 // guarded by selecting; events of the root window
}

// Open connects to the server called name (as in DISPLAY); authority comes
// from the process's XAUTHORITY or HOME. The error is ErrLost when there is no
// server. Close the display by ending Run.
func Open(name string) (*Display, error) {
	conn, err := xgb.NewConnDisplay(name)
	if err != nil {
		return nil, fmt.Errorf("open display %q: %w: %w", name, err, ErrLost)
	}
	setup := xproto.Setup(conn)
	return &Display{
		Conn: conn, Name: name, Setup: setup, Root: setup.DefaultScreen(conn).Root,
		done:  make(chan struct{}),
		atoms: map[string]xproto.Atom{}, names: map[xproto.Atom]string{}, handlers: map[int]func(xgb.Event){},
	}, nil
}

// Run hands events to the subscribers until ctx ends (then it returns nil) or
// the server goes away (then ErrLost). It closes the connection.
func (d *Display) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, d.Conn.Close)
	defer stop()
	defer close(d.done)
	for {
		ev, xerr := d.Conn.WaitForEvent()
		if ev == nil && xerr == nil {
			d.Conn.Close()
			if ctx.Err() != nil {
				return nil // the end that was asked for
			}
			return fmt.Errorf("read events of display %q: %w", d.Name, ErrLost)
		}
		if ev == nil {
			continue // an unchecked request failed; its caller did not care
		}
		for _, h := range d.subscribers() {
			h(ev)
		}
	}
}

// Done is closed when the connection has ended.
func (d *Display) Done() <-chan struct{} { return d.done }

func (d *Display) subscribers() []func(xgb.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	hs := make([]func(xgb.Event), 0, len(d.handlers))
	for _, h := range d.handlers {
		hs = append(hs, h)
	}
	return hs
}

// Subscribe calls h for every event until the returned function is called. h
// runs on Run's goroutine and must not wait for replies that need it.
func (d *Display) Subscribe(h func(xgb.Event)) (cancel func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := d.next
	d.next++
	d.handlers[id] = h
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.handlers, id)
	}
}

// Select asks for more events of the root window. The server keeps one mask for a
// client, so whoever wants some asks here.
func (d *Display) Select(mask uint32) error {
	d.selecting.Lock()
	defer d.selecting.Unlock()
	all := d.selected | mask
	err := xproto.ChangeWindowAttributesChecked(d.Conn, d.Root, xproto.CwEventMask, []uint32{all}).Check()
	if err != nil {
		return Wrap(err, "watch the root window")
	}
	d.selected = all
	return nil
}

// Atom interns name.
func (d *Display) Atom(name string) (xproto.Atom, error) {
	d.mu.Lock()
	a, ok := d.atoms[name]
	d.mu.Unlock()
	if ok {
		return a, nil
	}
	r, err := xproto.InternAtom(d.Conn, false, uint16(len(name)), name).Reply()
	if err != nil {
		return 0, Wrap(err, "intern atom "+name)
	}
	d.remember(name, r.Atom)
	return r.Atom, nil
}

// AtomName is the inverse of Atom.
func (d *Display) AtomName(a xproto.Atom) (string, error) {
	d.mu.Lock()
	name, ok := d.names[a]
	d.mu.Unlock()
	if ok {
		return name, nil
	}
	r, err := xproto.GetAtomName(d.Conn, a).Reply()
	if err != nil {
		return "", Wrap(err, fmt.Sprintf("name atom %d", a))
	}
	d.remember(r.Name, a)
	return r.Name, nil
}

func (d *Display) remember(name string, a xproto.Atom) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.atoms[name], d.names[a] = a, name
}

// Client names the client that made the resource id: ids of one client share
// their high bits.
func (d *Display) Client(id xproto.Window) uint32 {
	return uint32(id) &^ d.Setup.ResourceIdMask
}

// Wrap turns an error of an X request into one of the guest protocol, told
// with what was done: a lost connection is ErrLost, a window that has gone is
// CodeNotFound.
func Wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	var (
		window   xproto.WindowError
		drawable xproto.DrawableError
		access   xproto.AccessError
	)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w", what, ErrLost)
	case errors.As(err, &window), errors.As(err, &drawable):
		return &guest.Error{Code: guest.CodeNotFound, Message: what + ": the window is gone"}
	case errors.As(err, &access):
		return &guest.Error{Code: guest.CodeBusy, Message: what + ": another program holds it"}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Sleep waits for d or until ctx ends or the display is lost.
func (d *Display) Sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", context.Cause(ctx))
	case <-d.done:
		return fmt.Errorf("wait: %w", ErrLost)
	}
}

// Until polls check every 10 ms until it says true; false at the end of limit.
// An error of check or of ctx ends it.
func (d *Display) Until(ctx context.Context, limit time.Duration, check func() (bool, error)) (bool, error) {
	end := time.Now().Add(limit)
	for {
		ok, err := check()
		if ok || err != nil {
			return ok, err
		}
		if time.Now().After(end) {
			return false, nil
		}
		if err := d.Sleep(ctx, 10*time.Millisecond); err != nil {
			return false, err
		}
	}
}
