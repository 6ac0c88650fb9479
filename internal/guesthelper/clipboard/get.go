package clipboard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

var errEmpty error = &guest.Error{Code: guest.CodeNotFound, Message: "read clipboard: it is empty"}

// Get returns the clipboard's content of one type; text comes as UTF-8.
// CodeNotFound when it is empty or has no such type, CodeDeadline when its
// owner does not answer.
func (c *Clipboard) Get(ctx context.Context, kind string) (guest.Clipboard, error) {
	if kind == "" {
		kind = TypeText
	}
	done, err := c.turn(ctx)
	if err != nil {
		return guest.Clipboard{}, err
	}
	defer done()
	targets, err := c.targets(ctx)
	if err != nil {
		return guest.Clipboard{}, err
	}
	target := choose(kind, targets)
	if target == "" {
		return guest.Clipboard{}, &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("read clipboard: it has no %s, but %v", kind, Types(targets))}
	}
	it, err := c.fetch(ctx, target)
	if err != nil {
		return guest.Clipboard{}, err
	}
	if kind != TypePNG {
		it.data = Decode(it.kind, it.data)
	}
	return guest.Clipboard{Type: kind, Data: it.data}, nil
}

// Types lists the types of the clipboard's contents; none when it is empty.
func (c *Clipboard) Types(ctx context.Context) ([]string, error) {
	done, err := c.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	targets, err := c.targets(ctx)
	if errors.Is(err, errEmpty) {
		return []string{}, nil
	}
	return Types(targets), err
}

// targets asks the owner what it has. One that does not know TARGETS is taken
// to have text.
func (c *Clipboard) targets(ctx context.Context) ([]string, error) {
	if cs := c.mine(); cs != nil {
		return cs.targets(), nil
	}
	it, err := c.fetch(ctx, "TARGETS")
	if errors.Is(err, errRefused) {
		return []string{"UTF8_STRING"}, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, v := range display.Cards(it.data) {
		if n, err := c.d.AtomName(xproto.Atom(v)); err == nil {
			names = append(names, n)
		}
	}
	return names, nil
}

var errRefused error = &guest.Error{Code: guest.CodeNotFound, Message: "read clipboard: its owner refuses this type"}

// fetch has the owner convert the clipboard to a target.
func (c *Clipboard) fetch(ctx context.Context, target string) (item, error) {
	if cs := c.mine(); cs != nil {
		it, ok := cs[target]
		if !ok {
			return item{}, errRefused
		}
		return it, nil
	}
	owner, err := c.owner()
	if err != nil {
		return item{}, err
	}
	if owner == xproto.WindowNone {
		return item{}, errEmpty
	}
	at, err := c.now(ctx)
	if err != nil {
		return item{}, err
	}
	in, cancel, err := c.incoming(target, at)
	if err != nil {
		return item{}, err
	}
	defer cancel()
	xproto.ConvertSelection(c.d.Conn, c.win, c.sel, in.target, in.prop, at)
	n, err := wait(ctx, c.d, in.notify, errNoAnswer)
	if err != nil {
		return item{}, err
	}
	if n.Property == xproto.AtomNone {
		return item{}, errRefused
	}
	return c.receive(ctx, in)
}

// inbound is one conversion that we asked for.
type inbound struct {
	target, prop xproto.Atom
	notify       chan xproto.SelectionNotifyEvent
	bits         chan struct{} // the property has a new value
}

// incoming listens for the answer to a request of time at. Each request has a
// property of its own for a while, so that a late answer disturbs no other.
func (c *Clipboard) incoming(target string, at xproto.Timestamp) (*inbound, func(), error) {
	const places = 32
	c.mu.Lock()
	c.serial = (c.serial + 1) % places
	name := fmt.Sprintf("DESKFORK_CLIPBOARD_%d", c.serial)
	c.mu.Unlock()
	t, err := c.d.Atom(target)
	if err != nil {
		return nil, nil, err
	}
	prop, err := c.d.Atom(name)
	if err != nil {
		return nil, nil, err
	}
	in := &inbound{target: t, prop: prop, notify: make(chan xproto.SelectionNotifyEvent, 1), bits: make(chan struct{}, 64)}
	cancel := c.d.Subscribe(func(ev xgb.Event) {
		switch e := ev.(type) {
		case xproto.SelectionNotifyEvent:
			if e.Requestor == c.win && e.Target == t && e.Time == at {
				select {
				case in.notify <- e:
				default:
				}
			}
		case xproto.PropertyNotifyEvent:
			if e.Window == c.win && e.Atom == prop && e.State == xproto.PropertyNewValue {
				select {
				case in.bits <- struct{}{}:
				default: // the reader has plenty to look at
				}
			}
		}
	})
	return in, func() {
		cancel()
		xproto.DeleteProperty(c.d.Conn, c.win, prop)
	}, nil
}

// receive reads the property, bit by bit when its type is INCR.
func (c *Clipboard) receive(ctx context.Context, in *inbound) (item, error) {
	incr, err := c.d.Atom("INCR")
	if err != nil {
		return item{}, err
	}
	for len(in.bits) > 0 {
		<-in.bits // told of the value that we read now
	}
	kind, data, err := c.take(in.prop)
	if err != nil {
		return item{}, err
	}
	if kind != incr {
		name, err := c.d.AtomName(kind)
		return item{name, data}, err
	}
	data = nil
	for {
		if _, err := wait(ctx, c.d, in.bits, errNoAnswer); err != nil {
			return item{}, err
		}
		k, bit, err := c.take(in.prop)
		if err != nil {
			return item{}, err
		}
		if k == xproto.AtomNone {
			continue // told twice of one value
		}
		if len(bit) == 0 {
			name, err := c.d.AtomName(k)
			return item{name, data}, err
		}
		if len(data)+len(bit) > MaxSize {
			return item{}, tooLarge()
		}
		data = append(data, bit...)
	}
}

func tooLarge() error {
	return &guest.Error{Code: guest.CodeNoSpace, Message: fmt.Sprintf("read clipboard: it is above the limit of %d bytes", MaxSize)}
}

// take reads our property whole and deletes it.
func (c *Clipboard) take(prop xproto.Atom) (kind xproto.Atom, data []byte, err error) {
	r, err := xproto.GetProperty(c.d.Conn, true, c.win, prop, xproto.GetPropertyTypeAny, 0, MaxSize/4).Reply()
	if err != nil {
		return 0, nil, display.Wrap(err, "read clipboard")
	}
	if r.BytesAfter > 0 {
		return 0, nil, tooLarge()
	}
	return r.Type, r.Value, nil
}
