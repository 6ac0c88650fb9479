package xkb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

// names are what a layout or variant may be called; several are separated by
// commas.
var names = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(,[A-Za-z0-9_-]*)*$`)

// Layout sets the keyboard layout of a display by setxkbmap, which compiles
// the map from the system's XKB data.
type Layout struct {
	d   *display.Display
	env []string
	mu  sync.Mutex
}

// NewLayout sets layouts on d; env is what setxkbmap runs in.
func NewLayout(d *display.Display, env []string) *Layout {
	return &Layout{d: d, env: env}
}

// Set loads a layout and keeps key auto-repeat off. CodeInvalid when there is
// no such layout, CodeUnsupported without setxkbmap.
func (l *Layout) Set(ctx context.Context, k guest.Keyboard) error {
	if !names.MatchString(k.Layout) || (k.Variant != "" && !names.MatchString(strings.TrimLeft(k.Variant, ","))) {
		return &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("set keyboard to %q, variant %q: these are no names of XKB layouts", k.Layout, k.Variant)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	args := []string{"-display", l.d.Name, "-layout", k.Layout, "-variant", k.Variant}
	cmd := exec.CommandContext(ctx, "setxkbmap", args...)
	cmd.Env = l.env
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return setError(ctx, k, err, said.String())
	}
	have, err := l.names()
	if err != nil {
		return err
	}
	if have.Layout != k.Layout || have.Variant != k.Variant {
		return fmt.Errorf("set keyboard to %s(%s): the X server has %s(%s)", k.Layout, k.Variant, have.Layout, have.Variant)
	}
	err = xproto.ChangeKeyboardControlChecked(l.d.Conn, xproto.KbAutoRepeatMode, []uint32{xproto.AutoRepeatModeOff}).Check()
	return display.Wrap(err, "switch auto-repeat off")
}

func setError(ctx context.Context, k guest.Keyboard, err error, said string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("set keyboard: %w", context.Cause(ctx))
	}
	if _, ran := errors.AsType[*exec.ExitError](err); !ran {
		return &guest.Error{Code: guest.CodeUnsupported, Message: fmt.Sprintf("set keyboard: %v; install x11-xkb-utils in the image", err)}
	}
	return &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("set keyboard to %s(%s): %s", k.Layout, k.Variant, strings.TrimSpace(said))}
}

// names reads the layout as the server knows it.
func (l *Layout) names() (guest.Keyboard, error) {
	raw, err := l.d.Property(l.d.Root, "_XKB_RULES_NAMES")
	if err != nil {
		return guest.Keyboard{}, err
	}
	return ParseNames(raw), nil
}

// ParseNames reads _XKB_RULES_NAMES: rules, model, layout, variant and
// options, each ended by a NUL.
func ParseNames(raw []byte) guest.Keyboard {
	parts := strings.Split(string(raw), "\x00")
	var k guest.Keyboard
	if len(parts) > 2 {
		k.Layout = parts[2]
	}
	if len(parts) > 3 {
		k.Variant = parts[3]
	}
	return k
}
