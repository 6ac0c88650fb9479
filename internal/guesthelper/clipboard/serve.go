package clipboard

import (
	"slices"
	"strings"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
)

func (c *Clipboard) handle(ev numbered) {
	switch e := ev.Event.(type) {
	case xproto.SelectionRequestEvent:
		if e.Owner != c.win || e.Selection != c.sel {
			return
		}
		if c.unread(place{e.Requestor, property(e)}) {
			c.held = append(c.held, held{e, ev.n, time.Now().Add(readLimit)})
			return
		}
		c.request(e, ev.n)
	case xproto.SelectionClearEvent:
		c.mu.Lock()
		if e.Selection == c.sel && e.Time >= c.since {
			c.owned = nil // transfers that run go on with what they have
		}
		c.mu.Unlock()
	case xproto.PropertyNotifyEvent:
		if at := (place{e.Window, e.Atom}); e.State == xproto.PropertyDelete && e.Window != c.win && c.deleted(at) {
			c.next(at)
		}
	}
}

// readLimit is how long a request waits for the former answer in the same place to
// be taken away.
const readLimit = 2 * time.Second

// unread says whether an answer, or another request, is still in a place. GTK asks
// for a text before it takes the list of targets away from where the text shall be:
// a text that was put there in between would go with it, and nobody have read it.
func (c *Clipboard) unread(at place) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transfers[at] != nil || slices.ContainsFunc(c.held, func(h held) bool {
		return at == place{h.Requestor, property(h.SelectionRequestEvent)}
	})
}

// next answers the first request that waited for a place.
func (c *Clipboard) next(at place) {
	for i, h := range c.held {
		if at == (place{h.Requestor, property(h.SelectionRequestEvent)}) {
			c.held = slices.Delete(c.held, i, i+1)
			c.request(h.SelectionRequestEvent, h.n)
			return
		}
	}
}

// property is where an answer goes.
func property(e xproto.SelectionRequestEvent) xproto.Atom {
	if e.Property == xproto.AtomNone { // obsolete requestors, ICCCM 2.2
		return e.Target
	}
	return e.Property
}

// request answers one request for what we own. A requestor that is gone, or
// asks for what we have not, costs nothing but a refusal.
func (c *Clipboard) request(e xproto.SelectionRequestEvent, n uint64) {
	c.tell(outcome{client: c.d.Client(e.Requestor), asked: n})
	prop := property(e)
	name, err := c.d.AtomName(e.Target)
	ok := err == nil
	if ok && name == "MULTIPLE" {
		ok = c.multiple(e.Requestor, prop, n)
	} else if ok {
		ok = c.convert(e.Requestor, name, prop, n)
	}
	if !ok {
		prop = xproto.AtomNone
	}
	reply := xproto.SelectionNotifyEvent{
		Time: e.Time, Requestor: e.Requestor, Selection: e.Selection, Target: e.Target, Property: prop,
	}
	err = xproto.SendEventChecked(c.d.Conn, false, e.Requestor, 0, string(reply.Bytes())).Check()
	if err != nil {
		c.log.Debug("answer clipboard request", "err", err)
	}
}

// multiple converts pairs of target and property; those that fail are marked.
func (c *Clipboard) multiple(w xproto.Window, prop xproto.Atom, n uint64) bool {
	r, err := xproto.GetProperty(c.d.Conn, false, w, prop, xproto.GetPropertyTypeAny, 0, 1024).Reply()
	if err != nil || r.Format != 32 {
		return false
	}
	vs := display.Cards(r.Value)
	for i := 0; i+1 < len(vs); i += 2 {
		name, err := c.d.AtomName(xproto.Atom(vs[i]))
		if err != nil || name == "MULTIPLE" || !c.convert(w, name, xproto.Atom(vs[i+1]), n) {
			vs[i+1] = uint32(xproto.AtomNone)
		}
	}
	return c.put(w, prop, r.Type, 32, pack(vs)) == nil
}

func pack(vs []uint32) []byte {
	out := make([]byte, 4*len(vs))
	for i, v := range vs {
		xgb.Put32(out[4*i:], v)
	}
	return out
}

// convert puts a target into a property of the requestor, or begins to.
func (c *Clipboard) convert(w xproto.Window, target string, prop xproto.Atom, n uint64) bool {
	c.mu.Lock()
	owned, since := c.owned, c.since
	c.mu.Unlock()
	if owned == nil {
		return false
	}
	switch target {
	case "TARGETS":
		vs := []uint32{}
		for _, t := range append([]string{"TARGETS", "TIMESTAMP", "MULTIPLE"}, owned.targets()...) {
			if a, err := c.d.Atom(t); err == nil {
				vs = append(vs, uint32(a))
			}
		}
		return c.hand(place{w, prop}, &outgoing{transfer: &transfer{seen: time.Now()}}, xproto.AtomAtom, 32, pack(vs))
	case "TIMESTAMP":
		return c.hand(place{w, prop}, &outgoing{transfer: &transfer{seen: time.Now()}}, xproto.AtomInteger, 32, pack([]uint32{uint32(since)}))
	}
	it, ok := owned[target]
	if !ok {
		return false
	}
	kind, err := c.d.Atom(it.kind)
	if err != nil {
		return false
	}
	tr, atOnce := newTransfer(it.data, time.Now())
	out := &outgoing{transfer: tr, kind: kind, text: isText(target), asked: n}
	if atOnce {
		return c.hand(place{w, prop}, out, kind, 8, it.data)
	}
	incr, err := c.d.Atom("INCR")
	return err == nil && c.hand(place{w, prop}, out, incr, 32, pack([]uint32{uint32(len(it.data))}))
}

// hand puts the first bit of out into a property and watches that, to know when it
// was read.
func (c *Clipboard) hand(at place, out *outgoing, kind xproto.Atom, format byte, data []byte) bool {
	const mask = xproto.EventMaskPropertyChange
	var err error
	if at.window == c.d.Root { // watched for other reasons too
		err = c.d.Select(mask)
	} else {
		err = xproto.ChangeWindowAttributesChecked(c.d.Conn, at.window, xproto.CwEventMask, []uint32{mask}).Check()
	}
	if err != nil {
		return false
	}
	c.mu.Lock()
	c.transfers[at] = out
	c.mu.Unlock()
	if err = c.put(at.window, at.property, kind, format, data); err != nil {
		c.forget(at)
	}
	return err == nil
}

func isText(target string) bool {
	for _, t := range textTargets {
		if t == target {
			return true
		}
	}
	return strings.HasPrefix(target, "text/plain")
}

func (c *Clipboard) put(w xproto.Window, prop, kind xproto.Atom, format byte, data []byte) error {
	n := uint32(len(data)) / uint32(format/8)
	err := xproto.ChangePropertyChecked(c.d.Conn, xproto.PropModeReplace, w, prop, kind, format, n, data).Check()
	return display.Wrap(err, "hand over clipboard")
}

// deleted goes on with a transfer whose receiver has read a bit, and says whether
// that was all.
func (c *Clipboard) deleted(at place) (done bool) {
	c.mu.Lock()
	out := c.transfers[at]
	var s step
	if out != nil {
		s = out.deleted(time.Now())
	}
	c.mu.Unlock()
	switch {
	case out == nil:
	case s.put:
		if err := c.put(at.window, at.property, out.kind, 8, s.data); err != nil {
			c.forget(at)
		}
	case s.done:
		c.forget(at)
		if out.text {
			c.tell(outcome{client: c.d.Client(at.window), asked: out.asked, done: true})
		}
	}
	return s.done
}

// forget ends a transfer and stops watching a window without any.
func (c *Clipboard) forget(at place) {
	c.mu.Lock()
	delete(c.transfers, at)
	more := at.window == c.d.Root // watched for other reasons
	for p := range c.transfers {
		more = more || p.window == at.window
	}
	c.mu.Unlock()
	if !more { // gone windows do not mind: nobody reads the error
		xproto.ChangeWindowAttributes(c.d.Conn, at.window, xproto.CwEventMask, []uint32{xproto.EventMaskNoEvent})
	}
}

func (c *Clipboard) expire(now time.Time) {
	c.mu.Lock()
	var old []place
	for at, out := range c.transfers {
		if out.expired(now) {
			old = append(old, at)
		}
	}
	c.mu.Unlock()
	for _, at := range old {
		c.forget(at)
	}
}

func (c *Clipboard) tell(o outcome) {
	c.mu.Lock()
	watch := c.watch
	c.mu.Unlock()
	if watch != nil {
		watch(o)
	}
}
