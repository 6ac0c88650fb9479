// Command vmhost is Deskfork's daemon and its command line. This package is
// wiring: it reads flags, environment and terminal, and lists the adapters.
package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/cli/tty"
)

// version is set by the build.
var version = "dev"

func main() {
	// The first signal ends a command in an orderly way, the second by force:
	// what waits for an orderly end may hang.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	cfg := cli.Config{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: os.Args[0], Version: version,
		Address: os.Getenv("DESKFORK_ADDRESS"), Token: strings.TrimSpace(os.Getenv("DESKFORK_TOKEN")),
		DataDir: dataDir(), Progress: term.IsTerminal(int(os.Stderr.Fd())),
		Checks: localChecks, Serve: serveCmd, Build: buildCmd,
	}
	if t, ok := tty.New(os.Stdin, os.Stdout); ok {
		cfg.Terminal = t
	}
	os.Exit(cli.Run(ctx, cfg, os.Args[1:]))
}
