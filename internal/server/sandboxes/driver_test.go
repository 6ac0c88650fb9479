//go:build integration

package sandboxes_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDriver runs the driver of packaging/desktop-vm against this server, with desktops
// for machines: a client that is not of our language.
func TestDriver(t *testing.T) {
	d := newDesktopDoor(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("..", "..", "..", "packaging", "desktop-vm", "conformance.js"))
	// Debian keeps the modules of its packages there.
	cmd.Env = append(os.Environ(), "NODE_PATH=/usr/share/nodejs",
		"DESKTOP_VM_URL="+d.url, "DESKTOP_VM_KEY="+d.token, "DESKTOP_VM_IMAGE=test", "DESKTOP_VM_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("the driver does not conform (packages nodejs and node-ws are needed): %v", err)
	}
	if n := strings.Count("\n"+string(out), "\nok: "); n < 9 {
		t.Errorf("only %d tests ran", n)
	}
	if err := d.desk.Pass(t.Context()); err != nil { // of the stale generation
		t.Error(err)
	}
	d.nothingLeft()
}
