// Package xkb speaks the few requests of the X Keyboard Extension that typing
// needs and that the Go X library lacks: the map, the state, and locking of
// modifiers and group. (The X Keyboard Extension: Protocol Specification,
// version 1.0.)
package xkb

import (
	"errors"
	"fmt"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	extension = "XKEYBOARD"
	coreKbd   = 0x100 // XkbUseCoreKbd

	reqUseExtension   = 0
	reqGetState       = 4
	reqLatchLockState = 5
	reqGetMap         = 8

	replySize = 32
	mapParts  = 1 | 2 | 4 // key types, key syms, modifier map
)

// Keyboard is the core keyboard of a display.
type Keyboard struct {
	d      *display.Display
	opcode byte
}

// State is the state of the keyboard.
type State struct {
	Mods   byte // effective
	Base   byte // of keys held down
	Locked byte // e.g. Caps Lock
	Group  byte // effective, from 0
}

// New enables the extension on d. The error is a guest.Error of
// CodeUnsupported when the server lacks it.
func New(d *display.Display) (*Keyboard, error) {
	r, err := xproto.QueryExtension(d.Conn, uint16(len(extension)), extension).Reply()
	if err != nil {
		return nil, display.Wrap(err, "query "+extension)
	}
	if !r.Present {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: "the X server lacks " + extension}
	}
	k := &Keyboard{d: d, opcode: r.MajorOpcode}
	buf := k.request(reqUseExtension, 8)
	xgb.Put16(buf[4:], 1)
	reply, err := k.ask(buf)
	if err != nil {
		return nil, fmt.Errorf("enable %s: %w", extension, err)
	}
	if reply[1] == 0 {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: "the X server speaks another version of " + extension}
	}
	return k, nil
}

func (k *Keyboard) request(minor byte, size int) []byte {
	buf := make([]byte, size)
	buf[0], buf[1] = k.opcode, minor
	xgb.Put16(buf[2:], uint16(size/4))
	return buf
}

func (k *Keyboard) ask(buf []byte) ([]byte, error) {
	c := k.d.Conn.NewCookie(true, true)
	k.d.Conn.NewRequest(buf, c)
	reply, err := c.Reply()
	if err != nil {
		return nil, display.Wrap(err, "ask the keyboard")
	}
	if len(reply) < replySize {
		return nil, errors.New("read the keyboard's answer: too short")
	}
	return reply, nil
}

// State reads modifiers and group.
func (k *Keyboard) State() (State, error) {
	buf := k.request(reqGetState, 8)
	xgb.Put16(buf[4:], coreKbd)
	r, err := k.ask(buf)
	if err != nil {
		return State{}, fmt.Errorf("read keyboard state: %w", err)
	}
	return State{Mods: r[8], Base: r[9], Locked: r[11], Group: r[12]}, nil
}

// Map reads key types, symbols and modifiers of all keys.
func (k *Keyboard) Map() (*keymap.Map, error) {
	buf := k.request(reqGetMap, 28)
	xgb.Put16(buf[4:], coreKbd)
	xgb.Put16(buf[6:], mapParts)
	r, err := k.ask(buf)
	if err != nil {
		return nil, fmt.Errorf("read keyboard map: %w", err)
	}
	return keymap.Parse(r)
}

// LockMods sets the locked modifiers under mask to those of mods.
func (k *Keyboard) LockMods(mask, mods byte) error {
	buf := k.request(reqLatchLockState, 16)
	xgb.Put16(buf[4:], coreKbd)
	buf[6], buf[7] = mask, mods
	return k.tell(buf, "lock modifiers")
}

// LockGroup makes group (from 0) the locked one.
func (k *Keyboard) LockGroup(group byte) error {
	buf := k.request(reqLatchLockState, 16)
	xgb.Put16(buf[4:], coreKbd)
	buf[8], buf[9] = 1, group
	return k.tell(buf, "lock keyboard group")
}

func (k *Keyboard) tell(buf []byte, what string) error {
	c := k.d.Conn.NewCookie(true, false)
	k.d.Conn.NewRequest(buf, c)
	return display.Wrap(c.Check(), what)
}
