package input

import (
	"context"
	"fmt"

	clipboards "github.com/deskfork/deskfork/internal/guesthelper/clipboard"
	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/pkg/guest"
)

// paste puts ev.Text into the focused window through the clipboard, whatever
// its length.
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
	if p.lender(t) == nil {
		return guest.InputEffect{}, &guest.Error{Code: guest.CodeUnsupported, Message: "paste: there is no clipboard in this session"}
	}
	return p.pasteInto(ctx, t, runes)
}

// pasteInto pastes runes at once; into a terminal line by line with Return
// typed in between: shells take a pasted newline as text, and some terminals
// ask before they paste one.
func (p *Player) pasteInto(ctx context.Context, t target, runes []rune) (guest.InputEffect, error) {
	switch {
	case len(runes) == 0:
		return guest.InputEffect{Effect: guest.EffectConfirmed, How: guest.TextByPaste}, nil
	case t.kind == terminal || t.kind == oldTerm:
		return p.pasteLines(ctx, t, Lines(runes))
	}
	return p.pasteAll(ctx, t, []string{string(runes)}, func(int) error { return nil })
}

// pasteLines pastes the long ones of what Lines has made, and types what is between
// them. No program tells that it has taken the keys.
func (p *Player) pasteLines(ctx context.Context, t target, parts [][]rune) (guest.InputEffect, error) {
	var long []string
	between := [][][]rune{nil} // what comes before each of long, and after the last
	for _, part := range parts {
		if len(part) > pasteLine {
			long = append(long, string(part))
			between = append(between, nil)
		} else {
			between[len(long)] = append(between[len(long)], part)
		}
	}
	how := guest.TextByKeys
	typeBefore := func(i int) error {
		for _, part := range between[i] {
			eff, err := p.typeOr(ctx, t, part, 0)
			if err != nil {
				return err
			}
			how = stronger(how, eff.How)
		}
		return nil
	}
	if len(long) > 0 {
		eff, err := p.pasteAll(ctx, t, long, typeBefore)
		how = stronger(how, eff.How)
		if err != nil {
			return guest.InputEffect{Effect: guest.EffectUnverified, How: how}, err
		}
	}
	err := typeBefore(len(long))
	return guest.InputEffect{Effect: guest.EffectUnverified, How: how}, err
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

// pasteAll pastes texts one after the other, and calls before ahead of each.
func (p *Player) pasteAll(ctx context.Context, t target, texts []string, before func(i int) error) (guest.InputEffect, error) {
	fetched, err := p.lender(t).Lend(ctx, texts, clipboards.Borrower{Client: p.d.Client(t.top), Fetches: t.kind.fetches(), Prompt: t.kind == oldTerm},
		func() error { return p.barrier(ctx, t) },
		func(i int) error {
			var err error
			if i > 0 && t.pings {
				err = p.barrier(ctx, t)
			}
			if err == nil {
				err = before(i)
			}
			if err == nil {
				err = p.shortcut(ctx, t)
			}
			return err
		})
	if err != nil {
		return guest.InputEffect{}, err
	}
	if fetched < len(texts) && len(texts) > 1 {
		return guest.InputEffect{}, &guest.Error{
			Code: guest.CodeDeadline, Message: fmt.Sprintf("paste: the program has taken %d lines of %d and does not ask for the next", fetched, len(texts)),
		}
	}
	return guest.InputEffect{Effect: effect(fetched == len(texts)), How: guest.TextByPaste}, nil
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
	var chord []keymap.Keysym
	switch t.kind {
	case oldTerm:
		chord = []keymap.Keysym{keymap.SymShift, keymap.SymInsert}
	case terminal:
		chord = []keymap.Keysym{keymap.SymControl, keymap.SymShift, 'v'}
	case editor, browser:
		chord = []keymap.Keysym{keymap.SymControl, 'v'}
	}
	before := p.snapshot()
	defer p.releaseSince(before)
	for _, sym := range chord {
		if _, err := p.key(ctx, sym, true); err != nil {
			return err
		}
	}
	return nil
}
