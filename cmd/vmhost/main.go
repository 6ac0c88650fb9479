// Command vmhost is Deskfork's daemon and its command line. This package is
// wiring: it reads flags, environment and terminal, and lists the adapters.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/deskfork/deskfork/internal/cli"
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
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: version,
		Address: os.Getenv("DESKFORK_ADDRESS"), Token: strings.TrimSpace(os.Getenv("DESKFORK_TOKEN")),
		DataDir: dataDir(), Progress: term.IsTerminal(int(os.Stderr.Fd())),
		Checks: localChecks, Serve: serveCmd, Build: buildCmd,
	}
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		cfg.Terminal = terminal{in: os.Stdin, out: os.Stdout}
	}
	os.Exit(cli.Run(ctx, cfg, os.Args[1:]))
}

// dataDir is where images, machines and the token lie by default.
func dataDir() string {
	if dir := os.Getenv("DESKFORK_DATA"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/deskfork"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "deskfork")
	}
	return filepath.Join(os.Getenv("HOME"), ".local", "share", "deskfork")
}

// runtimeDir is where sockets lie by default; its path must be short.
func runtimeDir() string {
	if os.Geteuid() != 0 {
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			return filepath.Join(dir, "deskfork")
		}
	}
	return "/run/deskfork"
}
