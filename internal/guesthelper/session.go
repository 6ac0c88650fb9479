//go:build linux

package guesthelper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jezek/xgb/xproto"
	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/guesthelper/browser"
	"github.com/deskfork/deskfork/internal/guesthelper/clipboard"
	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/frost"
	"github.com/deskfork/deskfork/internal/guesthelper/input"
	"github.com/deskfork/deskfork/internal/guesthelper/launch"
	"github.com/deskfork/deskfork/internal/guesthelper/park"
	"github.com/deskfork/deskfork/internal/guesthelper/screen"
	"github.com/deskfork/deskfork/internal/guesthelper/window"
	"github.com/deskfork/deskfork/internal/guesthelper/xkb"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Config configures a Session.
type Config struct {
	Display string   // as in DISPLAY, e.g. :0
	Env     []string // of launched programs
	Home    string   // their directory unless told otherwise
	// Wait is how long Open waits for the X server to come up. 0: not at all.
	Wait   time.Duration
	Logger *slog.Logger // nil: nothing is logged
}

// Session is the X session with everything that is served in it.
type Session struct {
	d       *display.Display
	screen  *screen.Screen
	input   *input.Player
	clip    *clipboard.Clipboard
	primary *clipboard.Clipboard
	windows *window.Windows
	layout  *xkb.Layout
	launch  *launch.Launcher
	parker  *park.Parker
	browser *browser.Watch
	missing []string
}

// Open connects to the X server. The error is display.ErrLost when it is not
// there. The session works while its Run runs.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Session{d: d, screen: screen.New(d), windows: window.New(d), launch: launch.New(cfg.Env, cfg.Home)}
	s.parker = park.New(park.Config{
		Display: d, Windows: s.windows, Launch: s.launch, Mark: park.MarkFile(launch.Value(cfg.Env, "XDG_RUNTIME_DIR")),
		Frost: cold(cfg.Logger), Logger: cfg.Logger,
	})
	s.browser = browser.New(d, s.windows, cfg.Logger)
	s.layout = xkb.NewLayout(d, cfg.Env)
	if !s.screen.CanResize() {
		s.missing = append(s.missing, guest.OpSetScreen+": the X server lacks RandR 1.3")
	}
	if s.clip, err = clipboard.New(d, clipboard.Main, cfg.Logger); err == nil {
		s.primary, err = clipboard.New(d, clipboard.Primary, cfg.Logger)
	}
	if err == nil {
		s.input, err = input.New(input.Config{Display: d, Clipboard: s.clip, Primary: s.primary, Logger: cfg.Logger})
	}
	if errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) {
		s.missing = append(s.missing, guest.OpInput+": "+err.Error())
		err = nil
	}
	if err != nil {
		d.Conn.Close()
		return nil, err
	}
	return s, nil
}

// cold is the group in which what is parked stands still.
func cold(log *slog.Logger) *frost.Group {
	group, err := frost.Open("parked")
	if err != nil {
		log.Debug("what is parked will not stand still", "err", err)
		return nil
	}
	return group
}

func connect(ctx context.Context, cfg Config) (*display.Display, error) {
	end := time.Now().Add(cfg.Wait)
	for {
		d, err := display.Open(cfg.Display)
		if err == nil || time.Now().After(end) {
			return d, err
		}
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// Run serves the session until ctx ends (then keys are let go and nil is
// returned) or the X server goes away (then display.ErrLost).
func (s *Session) Run(ctx context.Context) error {
	// The display ends last: letting go of keys needs it.
	xctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.d.Run(xctx) }() // waited for below

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.clip.Run(gctx) })
	g.Go(func() error { return s.primary.Run(gctx) })
	g.Go(func() error { return s.browser.Run(gctx) })
	g.Go(func() error { return s.parker.Run(gctx) })
	if s.input != nil {
		g.Go(func() error { return s.input.Run(gctx) })
	}
	g.Go(func() error {
		select {
		case <-gctx.Done():
			return nil
		case <-s.d.Done():
			return display.ErrLost
		}
	})
	err := g.Wait()
	stop()
	if e := <-ended; err == nil {
		err = e
	}
	return err
}

// Hello says who serves.
func (s *Session) Hello(pid int) guest.HelperHello {
	return guest.HelperHello{Protocol: guest.HelperProtocol, Display: s.d.Name, PID: pid, Missing: s.missing}
}

// ready proves that the X server answers.
func (s *Session) ready() (guest.Screen, error) {
	if _, err := xproto.GetInputFocus(s.d.Conn).Reply(); err != nil {
		return guest.Screen{}, display.Wrap(err, "ask the X server")
	}
	return s.screen.Size()
}

// start starts a program, or shows it where it is parked.
func (s *Session) start(ctx context.Context, what guest.Launch) (guest.Launched, error) {
	if s.launch.Browses(what.URL) || s.parker.Is(what.Argv) {
		shown, ok, err := s.parker.Show(ctx)
		if err != nil {
			return guest.Launched{}, err
		}
		if ok && what.URL == "" {
			return guest.Launched{PID: shown.PID}, nil
		}
	}
	return s.launch.Launch(ctx, what)
}

func (s *Session) player() (*input.Player, error) {
	if s.input == nil {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: strings.Join(s.missing, "; ")}
	}
	return s.input, nil
}

// code turns any error into one that crosses the wire.
func code(err error) *guest.Error {
	var known *guest.Error
	switch {
	case errors.As(err, &known):
		return &guest.Error{Code: known.Code, Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &guest.Error{Code: guest.CodeDeadline, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		return &guest.Error{Code: guest.CodeCancelled, Message: err.Error()}
	}
	return &guest.Error{Code: guest.CodeInternal, Message: fmt.Sprint(err)}
}

// ShowParked puts the window that is parked on display name on the screen, and
// reports whether there was one. runtimeDir is the session's.
func ShowParked(ctx context.Context, name, runtimeDir string) (bool, error) {
	d, err := display.Open(name)
	if err != nil {
		return false, err
	}
	defer d.Conn.Close()
	_, shown, err := park.New(park.Config{Display: d, Windows: window.New(d), Mark: park.MarkFile(runtimeDir)}).Show(ctx)
	return shown, err
}
