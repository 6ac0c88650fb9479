//go:build linux

package park

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestPending(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   uint64
	}{
		"none":            {"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000004000\n", 0},
		"of the process":  {"SigPnd:\t0000000000000000\nShdPnd:\t0000000000004000\n", bit(syscall.SIGTERM)},
		"of the thread":   {"SigPnd:\t0000000000000002\nShdPnd:\t0000000000000001\n", bit(syscall.SIGINT) | bit(syscall.SIGHUP)},
		"a name like one": {"Name:\tShdPnd:\t0000000000004000\n", 0},
		"nonsense":        {"ShdPnd:\tmany\n", 0},
		"empty":           {"", 0},
	} {
		if got := pending([]byte(c.status)); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}

// TestDoomed: a process that stands still with a signal to end is doomed.
func TestDoomed(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "trap : TERM; echo ready; while :; do sleep 1; done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // it is killed
	defer cmd.Process.Kill() //nolint:errcheck // it may have ended
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if doomed(pid) {
		t.Error("nobody has told it to end")
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !doomed(pid); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was told to end")
		}
	}
}

// TestThaw: the mark says what is thawed, and is empty afterwards.
func TestThaw(t *testing.T) {
	dir := t.TempDir()
	frozen, mark := filepath.Join(dir, "cgroup.freeze"), MarkFile(dir)
	p := New(Config{Mark: mark})
	for name, c := range map[string]struct{ mark, group string }{
		"it stands still":         {frozen + "\n", "0"},
		"it does not stand still": {"", "1"},
	} {
		for file, text := range map[string]string{frozen: "1", mark: c.mark} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.thaw(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		group, err := os.ReadFile(frozen)
		if left, e := os.ReadFile(mark); err != nil || e != nil || string(group) != c.group || len(left) > 0 {
			t.Errorf("%s: the group says %q, the mark %q; %v, %v", name, group, left, err, e)
		}
	}
	if err := os.WriteFile(mark, []byte(dir+"/gone/cgroup.freeze\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.thaw(); err != nil || p.frozen() != "" {
		t.Errorf("a group that is gone: %v, %q", err, p.frozen())
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	if err := p.thaw(); err != nil {
		t.Errorf("nothing is parked: %v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a mark was made")
	}
}
