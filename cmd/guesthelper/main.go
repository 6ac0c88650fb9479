//go:build linux

// Command guesthelper serves the X session of a desktop to guestd: screen,
// input, clipboard, windows. guestd starts it as the desktop's user with
// DISPLAY set, speaks frames over its standard input and output, and starts it
// again when it ends. Its log goes to standard error.
//
// Build it for a guest with
//
//	go build -trimpath -tags robotgo -o bin/guest-helper ./cmd/guesthelper
//
// which needs cgo, libx11-dev and libxtst-dev here and libx11-6 and libxtst6 in
// the guest. Without the tag it is pure Go and the pointer goes through XTEST.
// desktop.set_keyboard runs setxkbmap of x11-xkb-utils.
//
// With -open it only puts a window on the screen that was parked, and has the
// browser that runs open its arguments.
//
// Exit status: 0 when guestd closed the connection or a signal came, 1 for
// other errors, 69 when there is no X server or it went away, 76 when the
// frames were malformed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/guesthelper"
	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/launch"
	"github.com/deskfork/deskfork/internal/guesthelper/singleton"
	"github.com/deskfork/deskfork/internal/x/heap"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Exit statuses, as in sysexits.h.
const (
	exitNoDisplay = 69
	exitProtocol  = 76
)

func main() {
	wait := flag.Duration("wait", 10*time.Second, "how long to wait for the X server")
	name := flag.String("display", os.Getenv("DISPLAY"), "X display to serve")
	verbose := flag.Bool("v", false, "log more")
	open := flag.Bool("open", false, "put the browser that is parked on the screen, have the one that runs open the arguments, and end; status 1 when it has to be started")
	flag.Parse()

	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if *name == "" {
		*name = ":0"
	}
	if *open {
		os.Exit(openPages(*name, flag.Args(), log))
	}
	const floor = 48 << 20 // of its heap, in bytes; a picture of a screen takes 4 MiB
	heap.Calm(floor)
	// Children must not write into the frames.
	out := os.Stdout
	os.Stdout = os.Stderr
	err := run(context.Background(), guesthelper.Config{
		Display: *name, Env: environ(*name), Home: home(), Wait: *wait, Logger: log,
	}, os.Stdin, out)
	if err != nil {
		log.Error("end", "err", err)
	}
	// Not a return: a thread may hang in the X library for good.
	os.Exit(status(err))
}

// openPages is for whoever starts the browser by other ways than guestd.
func openPages(name string, pages []string, log *slog.Logger) (status int) {
	shown, err := guesthelper.ShowParked(context.Background(), name, os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		log.Error("show the parked window", "err", err)
	}
	pages = slices.DeleteFunc(pages, func(p string) bool { return p == "about:blank" })
	if len(pages) > 0 {
		dir, err := os.Getwd()
		if err != nil {
			dir = "/"
		}
		_, err = singleton.Open(context.Background(), launch.Profile(launch.ConfigDir(os.Environ(), home())), dir, pages...)
		shown = err == nil
		if err != nil && !errors.Is(err, singleton.ErrNone) {
			log.Error("open pages in the browser that runs", "err", err)
		}
	}
	if !shown {
		return 1
	}
	return 0
}

func home() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return "/"
	}
	return dir
}

// environ is the session's environment with the display that is served.
func environ(name string) []string {
	return append(os.Environ(), "DISPLAY="+name)
}

func run(ctx context.Context, cfg guesthelper.Config, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	s, err := guesthelper.Open(ctx, cfg)
	if err != nil {
		return err
	}
	// Shutdown order: stop taking requests and answer those in flight, then let
	// go of keys and buttons, then leave the X server.
	sctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	session := make(chan error, 1)
	go func() { session <- s.Run(sctx) }() // waited for below

	srv := guesthelper.NewServer(guest.NewHelperConn(in, out), s, cfg.Logger)
	if err := srv.Greet(s.Hello(os.Getpid())); err != nil {
		return err
	}
	cfg.Logger.Info("serving", "display", cfg.Display)
	err = srv.Run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	end()
	t := time.NewTimer(5 * time.Second)
	defer t.Stop()
	select {
	case e := <-session:
		if err == nil {
			err = e
		}
	case <-t.C:
		if err == nil {
			err = fmt.Errorf("leave the session: %w", display.ErrLost)
		}
	}
	return err
}

func status(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, display.ErrLost):
		return exitNoDisplay
	case errors.Is(err, guest.ErrFrame):
		return exitProtocol
	}
	return 1
}
