package input

import (
	"context"
	"errors"
	"slices"
	"time"
	"unicode"

	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/internal/guesthelper/xkb"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	// defaultRate is in characters a second. The server loses no key; this
	// keeps a slow program's queue short.
	defaultRate = 100
	// stride is after how many characters the target must have caught up.
	stride = 20
	// pasteFrom is the length in characters from which text is pasted.
	pasteFrom = 200
	// beyondBMP is beyond the characters that every toolkit takes from a key.
	beyondBMP = 0x10000
)

// text types ev.Text into the focused window.
func (p *Player) text(ctx context.Context, ev guest.InputEvent) (guest.InputEffect, error) {
	if err := keymap.CheckText(ev.Text); err != nil {
		return guest.InputEffect{}, invalid("%v", err)
	}
	t, err := p.target()
	if err != nil {
		return guest.InputEffect{}, err
	}
	runes := keymap.Runes(ev.Text)
	if len(runes) > pasteFrom && ev.PerSecond == 0 && p.canPaste(t) {
		return p.pasteInto(ctx, t, runes)
	}
	if t.kind == browser && p.clip != nil {
		return p.typeOrPasteAll(ctx, t, runes, ev.PerSecond)
	}
	return p.typeOr(ctx, t, runes, ev.PerSecond)
}

// canPaste says whether the target takes the clipboard's text by a shortcut.
func (p *Player) canPaste(t target) bool {
	return p.lender(t) != nil && t.top != 0
}

// lender is the selection that the target pastes.
func (p *Player) lender(t target) clipboard {
	if t.kind == oldTerm {
		return p.primary
	}
	return p.clip
}

// typeOr types runes; what no key and no spare key can do is pasted.
func (p *Player) typeOr(ctx context.Context, t target, runes []rune, rate int) (guest.InputEffect, error) {
	how, err := p.typeKeys(ctx, t, runes, rate)
	if errors.Is(err, keymap.ErrNoSpare) && p.canPaste(t) {
		return p.pasteInto(ctx, t, runes)
	}
	if errors.Is(err, keymap.ErrNoSpare) {
		return guest.InputEffect{}, &guest.Error{Code: guest.CodeUnsupported, Message: err.Error()}
	}
	return guest.InputEffect{Effect: guest.EffectUnverified, How: how}, err
}

// typeOrPasteAll gives a browser a text either by keys alone or in one paste. A
// mixture would come in another order than it was sent, for a browser reads the
// clipboard some time after the key; and no pause is long enough to give a key
// another character, for it looks keys up some time after it has answered a ping.
// What sends a form or leaves a field at the end of a text is typed.
func (p *Player) typeOrPasteAll(ctx context.Context, t target, runes []rune, rate int) (guest.InputEffect, error) {
	fits, err := p.fits(runes)
	if err != nil {
		return guest.InputEffect{}, err
	}
	if fits {
		return p.typeOr(ctx, t, runes, rate)
	}
	n := len(runes)
	for unicode.IsControl(runes[n-1]) { // one that is no control does not fit
		n--
	}
	eff, err := p.pasteInto(ctx, t, runes[:n])
	if err != nil || n == len(runes) {
		return eff, err
	}
	_, err = p.typeKeys(ctx, t, runes[n:], rate)
	return eff, err
}

// fits says whether keys can type runes without one that changes its character
// on the way.
func (p *Player) fits(runes []rune) (bool, error) {
	if slices.ContainsFunc(runes, func(r rune) bool { return r >= beyondBMP }) {
		return false, nil
	}
	m, state, err := p.keys()
	if err != nil {
		return false, err
	}
	segs, err := keymap.Plan(m, state.Group, p.spares.Clone(), runes)
	if errors.Is(err, keymap.ErrNoSpare) {
		return false, nil
	}
	changes := slices.ContainsFunc(segs, func(s keymap.Segment) bool { return s.Overwrites })
	return !changes, err
}

// stronger returns the way that is further from plain keys.
func stronger(a, b string) string {
	rank := map[string]int{guest.TextByKeys: 1, guest.TextByRemap: 2, guest.TextByPaste: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// typeKeys types runes with keys and tells how: by keys, or with spare keys
// remapped. Modifiers that are held or locked are put aside meanwhile.
func (p *Player) typeKeys(ctx context.Context, t target, runes []rune, rate int) (how string, err error) {
	m, state, segs, err := p.plan(runes)
	if err != nil {
		return "", err
	}
	restore, err := p.neutral(m, state)
	defer func() {
		if e := restore(); err == nil {
			err = e
		}
	}()
	if err != nil {
		return "", err
	}
	if rate <= 0 {
		rate = defaultRate
	}
	ty := typist{p: p, m: m, t: t, group: state.Group, home: state.Group, gap: time.Second / time.Duration(rate)}
	defer func() {
		if e := ty.rest(); err == nil {
			err = e
		}
	}()
	how = guest.TextByKeys
	for _, seg := range segs {
		if err := p.assign(ctx, t, seg); err != nil {
			return "", err
		}
		for _, st := range seg.Strokes {
			if _, lent := p.spares.Lent()[st.Code]; lent {
				how = guest.TextByRemap
			}
			if err := ty.stroke(ctx, st); err != nil {
				return "", err
			}
		}
	}
	return how, ty.finish(ctx)
}

// plan finds the strokes for runes in the layout as it is now.
func (p *Player) plan(runes []rune) (*keymap.Map, xkb.State, []keymap.Segment, error) {
	m, state, err := p.keys()
	if err != nil {
		return nil, xkb.State{}, nil, err
	}
	segs, err := keymap.Plan(m, state.Group, p.spares, runes)
	return m, state, segs, err
}

// keys reads the layout as it is now, and which spare keys it has.
func (p *Player) keys() (*keymap.Map, xkb.State, error) {
	m, err := p.kb.Map()
	if err != nil {
		return nil, xkb.State{}, err
	}
	if err := p.refresh(m); err != nil {
		return nil, xkb.State{}, err
	}
	state, err := p.kb.State()
	return m, state, err
}

// neutral lets go of the modifiers that are held and unlocks those that are
// locked, but for Num Lock, which no character depends on. restore puts them
// back.
func (p *Player) neutral(m *keymap.Map, state xkb.State) (restore func() error, err error) {
	var held []byte
	locked := state.Locked &^ m.NumLock()
	restore = func() error {
		var first error
		for _, c := range held {
			if e := p.tap(c, true); first == nil {
				first = e
			}
		}
		if locked != 0 {
			if e := p.kb.LockMods(locked, locked); first == nil {
				first = e
			}
		}
		return first
	}
	down, err := p.downKeys()
	if err != nil {
		locked = 0
		return restore, err
	}
	for c := range down {
		if m.Modifier(c) == 0 || m.Locking(c) {
			continue
		}
		if err := p.tap(c, false); err != nil {
			locked = 0
			return restore, err
		}
		held = append(held, c)
	}
	if locked != 0 {
		err = p.kb.LockMods(locked, 0)
	}
	return restore, err
}

// typist presses strokes at a pace, changing modifiers and group as little as
// it can.
type typist struct {
	p     *Player
	m     *keymap.Map
	t     target
	mods  byte   // of the keys in down
	down  []byte // modifier keys that are held
	group byte   // as it is
	home  byte   // as it was
	gap   time.Duration
	n     int // strokes so far
	next  time.Time
}

func (ty *typist) stroke(ctx context.Context, st keymap.Stroke) error {
	if st.Group != ty.group {
		if err := ty.p.kb.LockGroup(st.Group); err != nil {
			return err
		}
		ty.group = st.Group
	}
	if st.Mods != ty.mods {
		if err := ty.hold(st.Mods); err != nil {
			return err
		}
	}
	err := ty.p.tap(st.Code, true)
	if e := ty.p.tap(st.Code, false); err == nil { // never left pressed
		err = e
	}
	if err != nil {
		return err
	}
	ty.n++
	if ty.t.pings && ty.n%stride == 0 {
		if err := ty.p.barrier(ctx, ty.t); err != nil {
			return err
		}
	}
	return ty.pace(ctx)
}

func (ty *typist) pace(ctx context.Context) error {
	now := time.Now()
	if ty.next.Before(now.Add(-ty.gap)) {
		ty.next = now
	}
	ty.next = ty.next.Add(ty.gap)
	return ty.p.d.Sleep(ctx, ty.next.Sub(now))
}

// hold makes exactly mods held.
func (ty *typist) hold(mods byte) error {
	var first error
	for _, c := range ty.down {
		if err := ty.p.tap(c, false); first == nil {
			first = err
		}
	}
	ty.down, ty.mods = nil, 0
	if first != nil || mods == 0 {
		return first
	}
	codes, _ := ty.m.Shifter(mods)
	for _, c := range codes {
		ty.down = append(ty.down, c)
		if err := ty.p.tap(c, true); err != nil {
			return err
		}
	}
	ty.mods = mods
	return nil
}

// rest lets go of the modifiers and returns to the group.
func (ty *typist) rest() error {
	err := ty.hold(0)
	if ty.group != ty.home {
		if e := ty.p.kb.LockGroup(ty.home); err == nil {
			err = e
		}
		ty.group = ty.home
	}
	return err
}

// finish waits until the target has read what was typed, if it can say so.
func (ty *typist) finish(ctx context.Context) error {
	if err := ty.rest(); err != nil {
		return err
	}
	if len(ty.p.spares.Lent()) > 0 {
		ty.p.mark()
	}
	if !ty.t.pings {
		return nil
	}
	return ty.p.barrier(ctx, ty.t)
}
