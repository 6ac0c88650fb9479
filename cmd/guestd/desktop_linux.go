package main

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/guestd"
	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/display"
)

// desktop adds the X session of the default user and, if it is installed, the
// helper that serves it.
func desktop(cfg *guestd.Config, o options, log *slog.Logger, env func() map[string]string) {
	finder := &display.Finder{User: o.user, Display: o.display}
	cfg.Session = func() account.Session {
		return account.Session{User: o.user, Display: o.display, XAuthority: cmp.Or(o.xauthority, finder.XAuthority())}
	}
	if _, err := os.Stat(o.helper); err != nil {
		log.Warn("no desktop helper is installed", "path", o.helper)
		return
	}
	command := &display.Command{Path: o.helper, Session: cfg.Session, Env: env, Logger: log, Shield: cfg.Exec.Shield}
	if cfg.Exec.Cgroup != "" {
		command.Group = filepath.Join(cfg.Exec.Cgroup, "desktop")
	}
	cfg.Helper = display.Config{
		Spawn:  command.Spawn,
		Env:    env,
		Socket: filepath.Join("/tmp/.X11-unix", "X"+strings.TrimPrefix(o.display, ":")),
	}
}
