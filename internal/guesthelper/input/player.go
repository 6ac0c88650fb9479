// Package input plays pointer, key and text events in the desktop session.
//
// Text is typed with the keys of the current layout where it has them, with
// spare keys mapped for the characters it lacks, and by paste where that is
// long or keys cannot do it.
//
// With the build tag robotgo the pointer goes through robotgo (cgo, libX11,
// libXtst), without it through XTEST in pure Go.
package input

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	clipboards "github.com/deskfork/deskfork/internal/guesthelper/clipboard"
	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/internal/guesthelper/xkb"
	"github.com/deskfork/deskfork/pkg/guest"
)

// clipboard lends its place to a text that is pasted.
type clipboard interface {
	// Lend owns the clipboard with one text after the other, calls settle and then
	// paste for each, waits until the borrower has fetched that, as often as it does,
	// calls settle again and puts the former contents back. It says how many of the
	// texts were fetched.
	Lend(ctx context.Context, texts []string, to clipboards.Borrower, settle func() error, paste func(i int) error) (fetched int, err error)
}

// Player plays events, one batch at a time. Safe for concurrent use.
type Player struct {
	d       *display.Display
	kb      *xkb.Keyboard
	pointer pointer
	clip    clipboard
	primary clipboard // what old terminals paste
	log     *slog.Logger

	turn  chan struct{} // holds one token: whoever has it plays
	typed chan struct{} // tells Run that spare keys are in use

	// Guarded by turn.
	held    map[keymap.Keysym]heldKey
	buttons map[int]bool
	spares  *keymap.Spares
}

// Config configures a Player.
type Config struct {
	Display   *display.Display
	Clipboard clipboard    // nil: nothing is pasted
	Primary   clipboard    // nil: nothing is pasted into old terminals
	Logger    *slog.Logger // nil: nothing is logged
}

// New prepares a player. CodeUnsupported when the server lacks XTEST or XKB.
func New(cfg Config) (*Player, error) {
	if err := xtest.Init(cfg.Display.Conn); err != nil {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: "the X server lacks XTEST: " + err.Error()}
	}
	kb, err := xkb.New(cfg.Display)
	if err != nil {
		return nil, err
	}
	// Answers to our pings are sent to the root window.
	if err := cfg.Display.Select(xproto.EventMaskSubstructureNotify); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Player{
		d: cfg.Display, kb: kb, pointer: newPointer(cfg.Display), clip: cfg.Clipboard, primary: cfg.Primary, log: cfg.Logger,
		turn: make(chan struct{}, 1), typed: make(chan struct{}, 1),
		held: map[keymap.Keysym]heldKey{}, buttons: map[int]bool{},
	}
	p.turn <- struct{}{}
	return p, nil
}

// linger is how long spare keys keep the characters they were lent to: a slow
// program may still have their events before it, and the next text may need
// them again.
const linger = 5 * time.Second

// Run returns spare keys that have not been used for a while: it looks again when
// other input is just being played. When ctx ends it lets go of all keys and
// buttons and returns the spare keys at once.
func (p *Player) Run(ctx context.Context) error {
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return p.end()
		case <-p.d.Done():
			return display.ErrLost
		case <-p.typed:
			idle.Reset(linger)
		case <-idle.C:
			select {
			case <-p.turn:
				p.unlend()
				p.turn <- struct{}{}
			default: // a batch is being played, which need not type
				idle.Reset(linger)
			}
		}
	}
}

// end bounds the wait for a batch that does not stop.
func (p *Player) end() error {
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-p.turn:
	case <-t.C:
		return errors.New("end input: a batch is still being played")
	}
	defer func() { p.turn <- struct{}{} }()
	p.release()
	p.unlend()
	return nil
}

// Play plays the events of b in order. At the first that cannot be played it
// lets go of every key and button that b pressed, and returns that event's
// error beside how far it came.
func (p *Player) Play(ctx context.Context, b guest.InputBatch) (guest.InputResult, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return guest.InputResult{}, fmt.Errorf("wait for the running input: %w", context.Cause(ctx))
	}
	defer func() { p.turn <- struct{}{} }()

	before := p.snapshot()
	var res guest.InputResult
	for i, ev := range b.Events {
		eff, err := p.event(ctx, ev)
		if err != nil {
			p.releaseSince(before)
			at, _ := p.Pointer()
			res.Pointer = at
			return res, fmt.Errorf("play event %d (%s): %w", i, ev.Kind, err)
		}
		res.Done++
		res.Effects = append(res.Effects, eff)
	}
	at, err := p.Pointer()
	res.Pointer = at
	return res, err
}

func (p *Player) event(ctx context.Context, ev guest.InputEvent) (guest.InputEffect, error) {
	if ctx.Err() != nil {
		return guest.InputEffect{}, context.Cause(ctx)
	}
	var (
		eff guest.Effect
		err error
	)
	switch ev.Kind {
	case "move":
		eff, err = p.move(ev.X, ev.Y)
	case "button":
		eff, err = p.press(ctx, ev.Button, ev.Down)
	case "scroll":
		eff, err = p.scroll(ctx, ev.DX, ev.DY)
	case "key":
		eff, err = p.key(ctx, keymap.Keysym(ev.Keysym), ev.Down)
	case "text":
		return p.text(ctx, ev)
	case "paste":
		return p.paste(ctx, ev)
	case "release":
		p.release()
		eff = guest.EffectConfirmed
	default:
		err = invalid("event kind %q: use move, button, key, text, scroll, paste or release", ev.Kind)
	}
	return guest.InputEffect{Effect: eff}, err
}

// pressed is what the player holds down.
type pressed struct {
	keys    map[keymap.Keysym]bool
	buttons map[int]bool
}

func (p *Player) snapshot() pressed {
	s := pressed{keys: map[keymap.Keysym]bool{}, buttons: map[int]bool{}}
	for k := range p.held {
		s.keys[k] = true
	}
	for b := range p.buttons {
		s.buttons[b] = true
	}
	return s
}

func (p *Player) release() { p.releaseSince(pressed{}) }

// releaseSince lets go of what was pressed after keep. Nothing can be done
// about an error: the server that would tell is gone, and so are its keys.
func (p *Player) releaseSince(keep pressed) {
	for sym, h := range p.held {
		if !keep.keys[sym] {
			if err := p.letGo(sym, h); err != nil {
				p.log.Warn("release key", "keysym", uint32(sym), "err", err)
			}
		}
	}
	for n := range p.buttons {
		if keep.buttons[n] {
			continue
		}
		delete(p.buttons, n)
		if err := p.buttonPath(n).button(n, false); err != nil {
			p.log.Warn("release button", "button", n, "err", err)
		}
	}
}
