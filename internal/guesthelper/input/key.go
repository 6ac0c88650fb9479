package input

import (
	"context"

	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/internal/guesthelper/xkb"
	"github.com/deskfork/deskfork/pkg/guest"
)

// heldKey is a key that the player holds down, and the modifiers that it
// pressed to reach its level.
type heldKey struct {
	code byte
	mods []byte
}

// key presses or releases one key by its meaning. Pressing a key that is held
// repeats it.
func (p *Player) key(ctx context.Context, sym keymap.Keysym, down bool) (guest.Effect, error) {
	if sym == 0 {
		return "", invalid("key: give a keysym")
	}
	h, held := p.held[sym]
	switch {
	case held && !down:
		return p.seen(ctx, h.code, false, p.letGo(sym, h))
	case held:
		err := p.tap(h.code, false)
		if err == nil {
			err = p.tap(h.code, true)
		}
		return p.seen(ctx, h.code, true, err)
	}
	m, err := p.kb.Map()
	if err != nil {
		return "", err
	}
	state, err := p.kb.State()
	if err != nil {
		return "", err
	}
	st, asIs, err := p.strokeFor(ctx, m, sym, state)
	if err != nil {
		return "", err
	}
	if !down { // not ours: whoever pressed it, it shall be up
		return p.seen(ctx, st.Code, false, p.tap(st.Code, false))
	}
	mods, _ := m.Shifter(st.Mods &^ state.Mods)
	p.held[sym] = heldKey{code: st.Code, mods: mods}
	for _, c := range mods {
		if err := p.tap(c, true); err != nil {
			return "", err
		}
	}
	if asIs {
		return p.seen(ctx, st.Code, true, p.tap(st.Code, true))
	}
	return p.seen(ctx, st.Code, true, p.pressUnlocked(st, state.Locked))
}

// pressUnlocked presses a key without Caps Lock in the way.
func (p *Player) pressUnlocked(st keymap.Stroke, locked byte) error {
	if locked&keymap.ModLock == 0 {
		return p.tap(st.Code, true)
	}
	if err := p.kb.LockMods(keymap.ModLock, 0); err != nil {
		return err
	}
	err := p.tap(st.Code, true)
	if again := p.kb.LockMods(keymap.ModLock, keymap.ModLock); err == nil {
		err = again
	}
	return err
}

// strokeFor finds the key for sym in the current group: asIs when it needs no
// change of modifiers, else with some added, else on a spare key. Browsers tell
// shortcuts by the place of a key when the layout has no Latin letters, and do
// not know the spare keys' places.
func (p *Player) strokeFor(ctx context.Context, m *keymap.Map, sym keymap.Keysym, state xkb.State) (st keymap.Stroke, asIs bool, err error) {
	same := func(s keymap.Keysym) bool { return keymap.Same(s, sym) }
	st, asIs = m.FindNow(state.Group, state.Mods, same)
	found := asIs
	if !found {
		st, found = m.FindIn(state.Group, same)
	}
	if _, lent := p.spares.Lent()[st.Code]; found && !lent {
		return st, asIs, nil
	}
	t, err := p.target()
	if err != nil {
		return st, false, err
	}
	const shortcut = keymap.ModControl | keymap.ModAlt | keymap.ModSuper
	if code, ok := keymap.Place(sym); ok && t.kind == browser && state.Base&shortcut != 0 {
		return keymap.Stroke{Code: code, Group: state.Group}, true, nil
	}
	if found {
		return st, asIs, nil
	}
	code, err := p.lendOne(ctx, t, m, sym)
	return keymap.Stroke{Code: code, Group: state.Group}, true, err
}

// seen reads back whether a key is down, unless err says that it was not played.
func (p *Player) seen(ctx context.Context, code byte, down bool, err error) (guest.Effect, error) {
	if err != nil {
		return "", err
	}
	ok, err := p.d.Until(ctx, seenLimit, func() (bool, error) {
		keys, err := p.downKeys()
		return err == nil && keys[code] == down, err
	})
	return effect(ok), err
}

// downKeys reads which keys are down.
func (p *Player) downKeys() (map[byte]bool, error) {
	r, err := xproto.QueryKeymap(p.d.Conn).Reply()
	if err != nil {
		return nil, display.Wrap(err, "read pressed keys")
	}
	down := map[byte]bool{}
	for i, bits := range r.Keys {
		for b := range 8 {
			if bits&(1<<b) != 0 {
				down[byte(i*8+b)] = true
			}
		}
	}
	return down, nil
}

func (p *Player) letGo(sym keymap.Keysym, h heldKey) error {
	delete(p.held, sym)
	err := p.tap(h.code, false)
	for _, c := range h.mods {
		if e := p.tap(c, false); err == nil {
			err = e
		}
	}
	return err
}

// tap presses or releases a key by its code.
func (p *Player) tap(code byte, down bool) error {
	kind := byte(xproto.KeyRelease)
	if down {
		kind = xproto.KeyPress
	}
	return fake(p.d, kind, code, 0, 0)
}
