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
	"github.com/deskfork/deskfork/test/harness"
)

// The tests of this file break things.

// TestDaemonKilled: the machine goes on, the next daemon adopts it, and an
// exec that ran meanwhile is attached again without a byte lost.
func TestDaemonKilled(t *testing.T) {
	desks := alone(t)
	d := desks[0]
	before, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boot := d.sh(t, "cat /proc/sys/kernel/random/boot_id")
	st, err := d.Execs().Start(t.Context(), api.Exec{Shell: "for i in $(seq 1 120); do echo $i; sleep 0.1; done"})
	if err != nil {
		t.Fatal(err)
	}
	host.Kill()
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := d.Wait(t.Context(), api.StageDrawn, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range desks[1:] {
		if now, err := other.Wait(t.Context(), api.StageDrawn, 2*time.Minute); err != nil || !now.Adopted {
			t.Errorf("%s: %+v, %v", other.Ref(), now, err)
		}
	}
	if after.ID != before.ID || after.Incarnation != before.Incarnation || !after.Adopted {
		t.Errorf("after: %+v", after)
	}
	if now := d.sh(t, "cat /proc/sys/kernel/random/boot_id"); now != boot {
		t.Error("the guest was booted again")
	}
	var out strings.Builder
	end, err := d.Execs().Attach(t.Context(), st.ID, client.Streams{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 120 {
		fmt.Fprintln(&want, i+1)
	}
	if out.String() != want.String() || end.ExitCode != 0 {
		t.Errorf("exit %d, output of %d bytes, want %d", end.ExitCode, out.Len(), want.Len())
	}
	if img, _ := d.shot(t, client.ScreenshotOptions{}); img.Bounds().Dx() != before.Display.Width {
		t.Errorf("screenshot is %v", img.Bounds())
	}
}

// TestDisplayGone: without an X server exec and files work, the screen can
// still be seen, and what needs a session says no_display.
func TestDisplayGone(t *testing.T) {
	d := lend(t)
	d.asRoot(t, "systemctl stop deskfork-x")
	d.until(t, time.Minute, "no_display", func(ctx context.Context) error {
		_, err := d.Windows().List(ctx)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeNoDisplay {
			return fmt.Errorf("windows: %w", err)
		}
		return nil
	})
	if got := d.sh(t, "echo still here"); got != "still here\n" {
		t.Errorf("exec: %q", got)
	}
	d.put(t, "/tmp/e2e/without-x", "y")
	if _, err := d.Screenshot(t.Context()); err != nil {
		t.Errorf("screenshot from the host: %v", err)
	}
	d.asRoot(t, "systemctl start deskfork-x deskfork-session")
	d.window(t, "the desktop again", func(w api.Window) bool { return w.Type == "dock" })
}

// TestDisplayKilled: an X server that dies comes back by itself, with the
// desktop and the helper.
func TestDisplayKilled(t *testing.T) {
	d := lend(t)
	before := strings.TrimSpace(d.sh(t, "pgrep -x Xorg"))
	d.asRoot(t, "kill -9 "+before)
	d.until(t, time.Minute, "a new X server", func(context.Context) error {
		if now := strings.TrimSpace(string(d.shell(t, "pgrep -x Xorg").Stdout)); now == "" || now == before {
			return fmt.Errorf("process %q", now)
		}
		return nil
	})
	d.window(t, "the desktop again", func(w api.Window) bool { return w.Type == "dock" })
}

func (d desk) asRoot(t *testing.T, command string) {
	t.Helper()
	res, err := d.Execs().Run(t.Context(), api.Exec{Shell: command, User: "root"})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%s: %v: exit %d: %s", command, err, res.ExitCode, res.Stderr)
	}
}

// TestPowerOff: a guest that switches itself off is stopped, not failed, and
// deleting it leaves nothing. While it runs it shows that network "none" is none.
func TestPowerOff(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{Name: "second", Network: "none"}, api.StageDrawn)
	res, err := d.Exec(t.Context(), "python3", "-c", "import socket\ntry:\n socket.create_connection(('192.0.2.1', 80), timeout=5)\nexcept OSError as e:\n print('none')")
	if err != nil || string(res.Stdout) != "none\n" {
		t.Errorf("network none: %q, %v", res.Stdout, err)
	}
	if _, err := d.Execs().Run(t.Context(), api.Exec{Shell: "systemctl poweroff", User: "root"}); err != nil {
		t.Log("poweroff:", err) // the link may go first
	}
	d.until(t, 2*time.Minute, "stopped", func(ctx context.Context) error {
		now, err := d.Get(ctx)
		if err != nil || now.State != api.StateStopped {
			return fmt.Errorf("state %s, %w", now.State, err)
		}
		return nil
	})
	d.gone(t, host)
}

// TestMachineKilled: a hypervisor that dies is a failure with a reason; the
// other desktop does not notice.
func TestMachineKilled(t *testing.T) {
	other := lend(t)
	d := breakable(t, api.CreateDesktop{Name: "third"}, api.StageMachine)
	pids := pidsOf(t, d.Info.Incarnation)
	if len(pids) != 1 {
		t.Fatalf("processes of %s: %v", d.Info.Incarnation, pids)
	}
	if out, err := exec.CommandContext(t.Context(), "kill", "-9", pids[0]).CombinedOutput(); err != nil {
		t.Fatalf("kill: %s", out)
	}
	d.until(t, time.Minute, "failed", func(ctx context.Context) error {
		now, err := d.Get(ctx)
		if err != nil || now.State != api.StateFailed || now.Failure == nil || now.Failure.Code != api.CodeMachineFailed {
			return fmt.Errorf("%+v, %w", now, err)
		}
		return nil
	})
	if got := other.sh(t, "echo unmoved"); got != "unmoved\n" {
		t.Errorf("the other desktop: %q", got)
	}
	d.gone(t, host)
}

// gone deletes a desktop and looks for what it leaves: record, process, files.
func (d desk) gone(t *testing.T, daemon *harness.Daemon) {
	t.Helper()
	if err := d.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := d.Get(t.Context())
	code(t, err, api.CodeNotFound)
	if left, _ := filepath.Glob(filepath.Join(daemon.Data, "desktops", d.Info.ID, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if left := pidsOf(t, d.Info.ID); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
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
