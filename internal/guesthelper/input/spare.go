package input

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/pkg/guest"
)

// settle is the pause that programs without a ping get to see a changed map,
// or to read their events before it changes again.
const settle = 250 * time.Millisecond

// refresh makes p.spares agree with the map as it is: after another layout was
// loaded, or a text broke off, keys are not lent as they were.
func (p *Player) refresh(m *keymap.Map) error {
	down, err := p.downKeys()
	if err != nil {
		return err
	}
	codes := slices.DeleteFunc(m.Spare(), func(c byte) bool { return down[c] })
	lent := map[byte]keymap.Keysym{}
	for code, sym := range p.spares.Lent() {
		if syms := m.Syms(code, 0); len(syms) > 0 && syms[0] == sym {
			lent[code] = sym
		}
	}
	p.spares = keymap.NewSpares(codes)
	p.spares.Adopt(lent)
	return nil
}

// lendOne makes sure that a spare key has sym, for a single key press.
func (p *Player) lendOne(ctx context.Context, t target, m *keymap.Map, sym keymap.Keysym) (byte, error) {
	if err := p.refresh(m); err != nil {
		return 0, err
	}
	code, over, err := p.spares.Lend(sym)
	if err != nil {
		return 0, &guest.Error{Code: guest.CodeUnsupported, Message: fmt.Sprintf("press keysym %#x: %v", uint32(sym), err)}
	}
	seg := keymap.Segment{Overwrites: over, Assign: []keymap.Assignment{{Code: code, Sym: sym}}}
	return code, p.assign(ctx, t, seg)
}

// assign maps spare keys for a segment and lets the target see it.
func (p *Player) assign(ctx context.Context, t target, seg keymap.Segment) error {
	if len(seg.Assign) == 0 {
		return nil
	}
	if seg.Overwrites {
		if err := p.barrier(ctx, t); err != nil {
			return err
		}
	}
	syms := map[byte]keymap.Keysym{}
	for _, a := range seg.Assign {
		syms[a.Code] = a.Sym
	}
	if err := p.remap(syms); err != nil {
		return err
	}
	p.mark()
	m, err := p.kb.Map()
	if err != nil {
		return err
	}
	for code, sym := range syms {
		if have := m.Syms(code, 0); len(have) == 0 || have[0] != sym {
			return fmt.Errorf("map spare key %d: the X server did not take it", code)
		}
	}
	return p.barrier(ctx, t)
}

// remap gives keys one symbol on both levels, so that neither Shift nor Caps
// Lock changes it; symbol 0 empties a key. Neighbours go in one request: each
// makes every program read its map anew.
func (p *Player) remap(syms map[byte]keymap.Keysym) error {
	codes := make([]byte, 0, len(syms))
	for c := range syms {
		codes = append(codes, c)
	}
	slices.Sort(codes)
	for len(codes) > 0 {
		n := 1
		for n < len(codes) && codes[n] == codes[n-1]+1 {
			n++
		}
		two := make([]xproto.Keysym, 0, 2*n)
		for _, c := range codes[:n] {
			two = append(two, xproto.Keysym(syms[c]), xproto.Keysym(syms[c]))
		}
		err := xproto.ChangeKeyboardMappingChecked(p.d.Conn, byte(n), xproto.Keycode(codes[0]), 2, two).Check()
		if err != nil {
			return display.Wrap(err, "map spare keys")
		}
		codes = codes[n:]
	}
	return nil
}

// mark tells Run that spare keys are in use.
func (p *Player) mark() {
	select {
	case p.typed <- struct{}{}:
	default:
	}
}

// unlend empties the spare keys, but for those that are held down.
func (p *Player) unlend() {
	back := map[byte]keymap.Keysym{}
	keep := map[byte]keymap.Keysym{}
	for code, sym := range p.spares.Lent() {
		if h, held := p.held[sym]; held && h.code == code {
			keep[code] = sym
			continue
		}
		back[code] = 0
	}
	if len(keep) > 0 {
		p.mark()
	}
	if len(back) == 0 {
		return
	}
	m, err := p.kb.Map()
	if err != nil {
		return // the server is gone, and its map with it
	}
	for code := range back { // another layout may have put something there
		if syms := m.Syms(code, 0); len(syms) == 0 || syms[0] != p.spares.Lent()[code] {
			delete(back, code)
		}
	}
	if err := p.remap(back); err != nil {
		p.log.Warn("return spare keys", "err", err)
		return
	}
	p.spares = nil
	if len(keep) > 0 {
		p.spares = keymap.NewSpares(nil)
		p.spares.Adopt(keep)
	}
}
