package input

import (
	"context"

	clipboards "github.com/deskfork/deskfork/internal/guesthelper/clipboard"
	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/pkg/guest"
)

// paste puts ev.Text into the focused window through the clipboard, whatever
// its length. A terminal that cannot paste the clipboard is typed into.
func (p *Player) paste(ctx context.Context, ev guest.InputEvent) (guest.InputEffect, error) {
	if err := keymap.CheckText(ev.Text); err != nil {
		return guest.InputEffect{}, invalid("%v", err)
	}
	t, err := p.target()
	if err != nil {
		return guest.InputEffect{}, err
	}
	if t.top == 0 {
		return guest.InputEffect{}, &guest.Error{Code: guest.CodeNotFound, Message: "paste: no window has the focus; focus one first"}
	}
	runes := keymap.Runes(ev.Text)
	if t.kind == oldTerm {
		return p.typeOr(ctx, t, runes, ev.PerSecond)
	}
	if p.clip == nil {
		return guest.InputEffect{}, &guest.Error{Code: guest.CodeUnsupported, Message: "paste: there is no clipboard in this session"}
	}
	return p.pasteInto(ctx, t, runes)
}

// pasteInto pastes runes at once; into a terminal line by line with Return
// typed in between: shells take a pasted newline as text, and some terminals
// ask before they paste one.
func (p *Player) pasteInto(ctx context.Context, t target, runes []rune) (guest.InputEffect, error) {
	if len(runes) == 0 {
		return guest.InputEffect{Effect: guest.EffectConfirmed, How: guest.TextByPaste}, nil
	}
	if t.kind != terminal {
		return p.pasteOnce(ctx, t, string(runes))
	}
	sum := guest.InputEffect{Effect: guest.EffectConfirmed, How: guest.TextByKeys}
	for _, line := range Lines(runes) {
		var (
			eff guest.InputEffect
			err error
		)
		if len(line) > pasteLine {
			eff, err = p.pasteOnce(ctx, t, string(line))
		} else {
			eff, err = p.typeOr(ctx, t, line, 0)
		}
		if err != nil {
			return sum, err
		}
		sum.How = stronger(sum.How, eff.How)
		if eff.Effect != guest.EffectConfirmed {
			sum.Effect = eff.Effect
		}
	}
	return sum, nil
}

// pasteLine is the length in characters from which a terminal's line is
// pasted: below it typing is as quick.
const pasteLine = 12

// Lines cuts runes into lines and the newlines between them.
func Lines(runes []rune) [][]rune {
	var parts [][]rune
	start := 0
	for i, r := range runes {
		if r != '\n' {
			continue
		}
		if i > start {
			parts = append(parts, runes[start:i])
		}
		parts = append(parts, runes[i:i+1])
		start = i + 1
	}
	if start < len(runes) {
		parts = append(parts, runes[start:])
	}
	return parts
}

func (p *Player) pasteOnce(ctx context.Context, t target, text string) (guest.InputEffect, error) {
	fetched, err := p.clip.Lend(ctx, text, clipboards.Borrower{Client: p.d.Client(t.top), Fetches: t.kind.fetches()},
		func() error { return p.barrier(ctx, t) },
		func() error { return p.shortcut(ctx, t) })
	if err != nil {
		return guest.InputEffect{}, err
	}
	return guest.InputEffect{Effect: effect(fetched), How: guest.TextByPaste}, nil
}

// shortcut presses the target's chord for paste.
func (p *Player) shortcut(ctx context.Context, t target) (err error) {
	m, err := p.kb.Map()
	if err != nil {
		return err
	}
	state, err := p.kb.State()
	if err != nil {
		return err
	}
	restore, err := p.neutral(m, state)
	defer func() {
		if e := restore(); err == nil {
			err = e
		}
	}()
	if err != nil {
		return err
	}
	chord := []keymap.Keysym{keymap.SymControl}
	if t.kind == terminal {
		chord = append(chord, keymap.SymShift)
	}
	chord = append(chord, keymap.Keysym('v'))
	before := p.snapshot()
	defer p.releaseSince(before)
	for _, sym := range chord {
		if _, err := p.key(ctx, sym, true); err != nil {
			return err
		}
	}
	return nil
}
