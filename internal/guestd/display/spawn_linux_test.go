package display_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/display"
	"github.com/deskfork/deskfork/internal/x/cgroup"
)

// TestFrozenGoOn: what a helper has frozen goes on when it has ended; and a helper
// runs where its group is none that can be given away.
func TestFrozenGoOn(t *testing.T) {
	top := t.TempDir()
	parked, err := cgroup.Make(filepath.Join(top, "parked"))
	if err != nil {
		t.Fatal(err)
	}
	parked.Close()
	file := filepath.Join(top, "parked", cgroup.FreezeFile)
	if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &display.Command{
		Path: "/bin/cat", Session: func() account.Session { return account.Session{} }, Env: func() map[string]string { return nil },
		Logger: slog.New(slog.DiscardHandler), Group: top,
	}
	p, err := c.Spawn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "1" {
		t.Errorf("while it runs: %q, %v", b, err)
	}
	p.In.Close()
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "0" {
		t.Errorf("when it has ended: %q, %v", b, err)
	}
}
