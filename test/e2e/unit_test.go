//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

const (
	unitFile  = "../../packaging/systemd/vmhost.service"
	installed = "/usr/local/lib/deskfork/"
)

// TestSystemdUnit: systemd takes the unit as it is written, and its command line
// starts a daemon that goes at once when systemd asks it to.
func TestSystemdUnit(t *testing.T) {
	beside(t)
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	// The program lies elsewhere here; the rest is as users install it.
	here := strings.ReplaceAll(string(text), installed, filepath.Dir(host.Bin)+"/")
	if here == string(text) {
		t.Fatalf("the unit does not name %s", installed)
	}
	dir, err := os.MkdirTemp("/tmp", "dfu") //nolint:usetesting // machines' user passes through it
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "vmhost.service")
	if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	_, line, _ := strings.Cut(here, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	argv := strings.Fields(line)
	port, err := harness.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What is not in the unit is said by its EnvironmentFile, or is free only once
	// on a host: data, sockets, port.
	data := filepath.Join(dir, "data")
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.CommandContext(t.Context(), argv[0], append(argv[1:], "--runtime-dir", filepath.Join(dir, "r"), "--listen", address)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DESKFORK_DATA=" + data}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	serving(t, address)
	begin := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || time.Since(begin) > 20*time.Second {
		t.Errorf("end after %s: %v\n%s", time.Since(begin), err, log.String())
	}
}

// serving waits until a daemon answers.
func serving(t *testing.T, address string) {
	t.Helper()
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for err = c.Healthy(ctx); err != nil; err = c.Healthy(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no answer at %s: %v", address, err)
		}
	}
}
