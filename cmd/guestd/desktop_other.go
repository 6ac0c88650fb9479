//go:build !linux

package main

import (
	"log/slog"

	"github.com/deskfork/deskfork/internal/guestd"
)

// desktop adds nothing: there is no helper for this system yet.
func desktop(*guestd.Config, options, *slog.Logger, func() map[string]string) {}
