package host_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestFirstCommandIsSealed: a command has run in what is sealed, and no clone knows
// of it.
func TestFirstCommandIsSealed(t *testing.T) {
	hosttest.NoLeaks(t)
	var log bytes.Buffer
	f := hosttest.New(t, func(c *host.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	v := f.Create(api.CreateDesktop{Name: "first"})
	l, err := f.Host.Guest(patient(t), project, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := l.Execs.List(patient(t)); err != nil || len(list) != 0 {
		t.Errorf("a clone has run %+v, %v", list, err)
	}
	f.Stop()
	if strings.Contains(log.String(), "first command") {
		t.Errorf("logged:\n%s", log.String())
	}
}
