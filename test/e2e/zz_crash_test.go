//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// The tests of this file break things. Their file sorts last, so they run last.

// TestZDaemonKilled: the machine goes on, the next daemon adopts it, and an
// exec that ran meanwhile is attached again without a byte lost.
func TestZDaemonKilled(t *testing.T) {
	before, err := desk.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boot := sh(t, "cat /proc/sys/kernel/random/boot_id")
	st, err := desk.Execs().Start(t.Context(), api.Exec{Shell: "for i in $(seq 1 300); do echo $i; sleep 0.1; done"})
	if err != nil {
		t.Fatal(err)
	}
	host.Kill()
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	desk = host.Client.Desktop("main")
	after, err := desk.Wait(t.Context(), api.StageDrawn, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if after.ID != before.ID || after.Incarnation != before.Incarnation || !after.Adopted {
		t.Errorf("after: %+v", after)
	}
	if now := sh(t, "cat /proc/sys/kernel/random/boot_id"); now != boot {
		t.Error("the guest was booted again")
	}
	var out strings.Builder
	end, err := desk.Execs().Attach(t.Context(), st.ID, client.Streams{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintln(&want, i+1)
	}
	if out.String() != want.String() || end.ExitCode != 0 {
		t.Errorf("exit %d, output of %d bytes, want %d", end.ExitCode, out.Len(), want.Len())
	}
	if img, _ := shot(t, client.ScreenshotOptions{}); img.Bounds().Dx() != before.Display.Width {
		t.Errorf("screenshot is %v", img.Bounds())
	}
}

// TestZDisplayGone: without an X server exec and files work, the screen can
// still be seen, and what needs a session says no_display.
func TestZDisplayGone(t *testing.T) {
	asRoot(t, "systemctl stop deskfork-x")
	until(t, time.Minute, "no_display", func(ctx context.Context) error {
		_, err := desk.Windows().List(ctx)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeNoDisplay {
			return fmt.Errorf("windows: %w", err)
		}
		return nil
	})
	if got := sh(t, "echo still here"); got != "still here\n" {
		t.Errorf("exec: %q", got)
	}
	put(t, "/tmp/e2e/without-x", "y")
	if _, err := desk.Screenshot(t.Context()); err != nil {
		t.Errorf("screenshot from the host: %v", err)
	}
	asRoot(t, "systemctl start deskfork-x deskfork-session")
	window(t, "the desktop again", func(w api.Window) bool { return w.Type == "dock" })
}

// TestZDisplayKilled: an X server that dies comes back by itself, with the
// desktop and the helper.
func TestZDisplayKilled(t *testing.T) {
	before := strings.TrimSpace(sh(t, "pgrep -x Xorg"))
	asRoot(t, "kill -9 "+before)
	until(t, time.Minute, "a new X server", func(context.Context) error {
		if now := strings.TrimSpace(string(shell(t, "pgrep -x Xorg").Stdout)); now == "" || now == before {
			return fmt.Errorf("process %q", now)
		}
		return nil
	})
	window(t, "the desktop again", func(w api.Window) bool { return w.Type == "dock" })
}

func asRoot(t *testing.T, command string) {
	t.Helper()
	res, err := desk.Execs().Run(t.Context(), api.Exec{Shell: command, User: "root"})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s: %v: exit %d: %s", command, err, res.ExitCode, res.Stderr)
	}
}

// TestZPowerOff: a guest that switches itself off is stopped, not failed, and
// deleting it leaves nothing.
func TestZPowerOff(t *testing.T) {
	d, err := host.Client.Desktops().Create(t.Context(), api.CreateDesktop{Image: "debian-xfce", Name: "second", Shape: "small", Network: "none"},
		client.Until(api.StageHandshake), client.Within(bootTimeout))
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.Exec(t.Context(), "python3", "-c", "import socket\ntry:\n socket.create_connection(('192.0.2.1', 80), timeout=5)\nexcept OSError as e:\n print('none')")
	if err != nil || string(res.Stdout) != "none\n" {
		t.Errorf("network none: %q, %v", res.Stdout, err)
	}
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execs().Run(t.Context(), api.Exec{Shell: "systemctl poweroff", User: "root"}); err != nil {
		t.Log("poweroff:", err) // the link may go first
	}
	until(t, 2*time.Minute, "stopped", func(ctx context.Context) error {
		now, err := d.Get(ctx)
		if err != nil || now.State != api.StateStopped {
			return fmt.Errorf("state %s, %w", now.State, err)
		}
		return nil
	})
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = d.Get(t.Context())
	code(t, err, api.CodeNotFound)
	left, _ := filepath.Glob(filepath.Join(host.Data, "desktops", info.ID, "*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := qemus(t); got != 1 {
		t.Errorf("%d machines run, want the shared one", got)
	}
}

// TestZMachineKilled: a hypervisor that dies is a failure with a reason; the
// other desktop does not notice.
func TestZMachineKilled(t *testing.T) {
	d, err := host.Client.Desktops().Create(t.Context(), api.CreateDesktop{Image: "debian-xfce", Name: "third", Shape: "small"},
		client.Until(api.StageMachine), client.Within(bootTimeout))
	if err != nil {
		t.Fatal(err)
	}
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pids := pidsOf(t, info.Incarnation)
	if len(pids) != 1 {
		t.Fatalf("processes of %s: %v", info.Incarnation, pids)
	}
	if out, err := exec.CommandContext(t.Context(), "kill", "-9", pids[0]).CombinedOutput(); err != nil {
		t.Fatalf("kill: %s", out)
	}
	until(t, time.Minute, "failed", func(ctx context.Context) error {
		now, err := d.Get(ctx)
		if err != nil || now.State != api.StateFailed || now.Failure == nil || now.Failure.Code != api.CodeMachineFailed {
			return fmt.Errorf("%+v, %w", now, err)
		}
		return nil
	})
	if got := sh(t, "echo unmoved"); got != "unmoved\n" {
		t.Errorf("the other desktop: %q", got)
	}
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(host.Data, "desktops", info.ID, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// qemus counts the machines of this daemon.
func qemus(t *testing.T) int {
	t.Helper()
	return len(pidsOf(t, host.Data))
}

// pidsOf finds QEMU processes that name a string on their command line.
func pidsOf(t *testing.T, what string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, f := range dirs {
		line, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(line), "qemu-system") && strings.Contains(string(line), what) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}
