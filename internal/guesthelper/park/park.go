//go:build linux

// Package park keeps one program ready behind the screen: started, drawn, at
// rest, its window taken off the screen. Whoever starts the program then gets
// that window at once. A machine is sealed in this state, so that its clones
// need not start the program anew.
package park

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/frost"
	"github.com/deskfork/deskfork/internal/guesthelper/launch"
	"github.com/deskfork/deskfork/internal/guesthelper/window"
	"github.com/deskfork/deskfork/pkg/guest"
)

// property, of the root window, names the parked window: it lives as long as
// the window can.
const property = "_DESKFORK_PARKED"

// markFile, in the session's run-time directory, is there while a window is
// parked: starters look for it before they ask. When the program stands still the
// file holds the path of what thaws it, see frost.Group.Switch.
const markFile = "deskfork-parked"

// MarkFile returns the path of the mark in a run-time directory; empty for none.
func MarkFile(runtimeDir string) string {
	if runtimeDir == "" {
		return ""
	}
	return filepath.Join(runtimeDir, markFile)
}

// Config of a Parker. Display and Windows are required, Launch to park.
type Config struct {
	Display *display.Display
	Windows *window.Windows
	Launch  *launch.Launcher
	Mark    string       // file, see MarkFile; empty: none, and nothing stands still
	Frost   *frost.Group // where what is parked stands still; nil: nowhere
	Logger  *slog.Logger // nil: nothing is logged
}

// Parker parks one window at a time. Safe for concurrent use.
type Parker struct {
	d       *display.Display
	windows *window.Windows
	launch  *launch.Launcher
	mark    string
	frost   *frost.Group
	log     *slog.Logger
	stands  chan standing // one that Run shall guard

	mu      sync.Mutex // one change at a time
	program string     // of the parked window
}

// New returns a parker. What stands still is thawed in time while its Run runs.
func New(cfg Config) *Parker {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Mark == "" {
		cfg.Frost = nil
	}
	return &Parker{
		d: cfg.Display, windows: cfg.Windows, launch: cfg.Launch, mark: cfg.Mark, frost: cfg.Frost,
		log: cfg.Logger, stands: make(chan standing),
	}
}

// Park starts a program, waits until it has a window and is at rest, takes the
// window off the screen, and has the program stand still if that can be had. When
// a window is parked already it is that one.
func (p *Parker) Park(ctx context.Context, what guest.Park) (guest.Parked, error) {
	if len(what.Argv) == 0 || what.Class == "" {
		return guest.Parked{}, &guest.Error{Code: guest.CodeInvalid, Message: "park: give argv and class"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w, err := p.parked()
	if err != nil {
		return guest.Parked{}, err
	}
	if w == 0 {
		if w, err = p.start(ctx, what); err != nil {
			return guest.Parked{}, fmt.Errorf("park %s: %w", what.Argv[0], err)
		}
	}
	p.program = filepath.Base(what.Argv[0])
	return p.describe(w)
}

func (p *Parker) start(ctx context.Context, what guest.Park) (xproto.Window, error) {
	group := p.frost
	if group != nil && !group.Free() { // what was parked before is at work
		group = nil
	}
	started, err := p.launch.In(ctx, group.File(), guest.Launch{Argv: what.Argv})
	if err != nil {
		return 0, err
	}
	w, err := p.appears(ctx, what.Class)
	if err != nil {
		return 0, fmt.Errorf("wait for its window: %w", err)
	}
	if err := p.rests(ctx, started.PID, cmp.Or(what.Quiet, 3*time.Second)); err != nil {
		return 0, fmt.Errorf("wait until it is at rest: %w", err)
	}
	if err := p.remember(w); err != nil {
		return 0, err
	}
	if err := p.withdraw(ctx, w); err != nil || group == nil {
		return w, err
	}
	const settled = time.Second // after it has seen that its window is gone
	if err := p.rests(ctx, started.PID, settled); err != nil {
		return 0, fmt.Errorf("wait until it is at rest without its window: %w", err)
	}
	if err := p.freeze(ctx, group, w); err != nil {
		p.log.Warn("what is parked does not stand still", "program", what.Argv[0], "err", err)
	}
	return w, nil
}

// Is reports whether argv starts the parked program without further wishes.
func (p *Parker) Is(argv []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(argv) == 1 && p.program != "" && filepath.Base(argv[0]) == p.program
}

// Show puts the parked window on the screen, and reports whether there was one.
func (p *Parker) Show(ctx context.Context) (guest.Parked, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, err := p.parked()
	p.program = ""
	if err != nil || w == 0 {
		return guest.Parked{}, false, errors.Join(err, p.thaw(), p.forget())
	}
	shown, err := p.describe(w)
	if err == nil {
		err = p.wake(ctx, shown.PID)
	}
	if err == nil {
		err = display.Wrap(xproto.MapWindowChecked(p.d.Conn, w).Check(), "show the parked window")
	}
	if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		return guest.Parked{}, false, p.forget() // the program has ended meanwhile
	}
	return shown, err == nil, errors.Join(err, p.forget())
}

func (p *Parker) describe(w xproto.Window) (guest.Parked, error) {
	info, err := p.windows.Get(w)
	return guest.Parked{PID: info.PID, Window: info.ID, Frozen: p.frozen() != ""}, err
}

// parked returns the window that is parked; 0 when none is.
func (p *Parker) parked() (xproto.Window, error) {
	vs, err := p.d.Cards(p.d.Root, property)
	if err != nil || len(vs) == 0 {
		return 0, err
	}
	w := xproto.Window(vs[0])
	a, err := xproto.GetWindowAttributes(p.d.Conn, w).Reply()
	if err != nil {
		if err = display.Wrap(err, "look at the parked window"); errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
			return 0, nil
		}
		return 0, err
	}
	if a.MapState != xproto.MapStateUnmapped {
		return 0, nil // somebody has shown it
	}
	return w, nil
}

func (p *Parker) appears(ctx context.Context, class string) (w xproto.Window, err error) {
	const poll = 200 * time.Millisecond
	for {
		ws, err := p.windows.List()
		if err != nil {
			return 0, err
		}
		for _, info := range ws {
			if strings.EqualFold(info.Class, class) && info.Type == "normal" {
				return xproto.Window(info.ID), nil
			}
		}
		if err := p.d.Sleep(ctx, poll); err != nil {
			return 0, err
		}
	}
}

// withdraw takes a window off the screen by ICCCM 4.1.4 and waits until the
// window manager has let go of it.
func (p *Parker) withdraw(ctx context.Context, w xproto.Window) error {
	if err := xproto.UnmapWindowChecked(p.d.Conn, w).Check(); err != nil {
		return display.Wrap(err, "take the window off the screen")
	}
	ev := xproto.UnmapNotifyEvent{Event: p.d.Root, Window: w}
	const mask = xproto.EventMaskSubstructureNotify | xproto.EventMaskSubstructureRedirect
	if err := xproto.SendEventChecked(p.d.Conn, false, p.d.Root, mask, string(ev.Bytes())).Check(); err != nil {
		return display.Wrap(err, "tell the window manager")
	}
	const limit = 20 * time.Second
	gone, err := p.d.Until(ctx, limit, func() (bool, error) {
		ws, err := p.windows.List()
		for _, info := range ws {
			if info.ID == uint64(w) {
				return false, err
			}
		}
		return true, err
	})
	if err == nil && !gone {
		err = fmt.Errorf("the window manager still has the window after %s", limit)
	}
	return err
}

// remember names w as the parked window.
func (p *Parker) remember(w xproto.Window) error {
	atom, err := p.d.Atom(property)
	if err != nil {
		return err
	}
	err = xproto.ChangePropertyChecked(p.d.Conn, xproto.PropModeReplace, p.d.Root, atom, xproto.AtomWindow, 32, 1,
		[]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)}).Check()
	if err != nil {
		return display.Wrap(err, "remember the parked window")
	}
	if p.mark == "" {
		return nil
	}
	if err := os.WriteFile(p.mark, nil, 0o600); err != nil {
		return fmt.Errorf("mark the parked window: %w", err)
	}
	return nil
}

func (p *Parker) forget() error {
	atom, err := p.d.Atom(property)
	if err != nil {
		return err
	}
	err = display.Wrap(xproto.DeletePropertyChecked(p.d.Conn, p.d.Root, atom).Check(), "forget the parked window")
	if p.mark == "" {
		return err
	}
	if gone := os.Remove(p.mark); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("unmark the parked window: %w", gone))
	}
	return err
}
