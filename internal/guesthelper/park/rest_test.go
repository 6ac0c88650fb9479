//go:build linux

package park

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	for name, tt := range map[string]struct {
		stat    string
		session int
		ticks   int64
		state   string
		ok      bool
	}{
		"plain":         {"7 (x) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 5 6 7", 7, 42, "S", true},
		"odd name":      {"7 (a) R 9 (b)) R 1 7 7 0 -1 4194560 1 0 0 0 1 2 0", 7, 3, "R", true},
		"other session": {"7 (x) S 1 7 8 0 -1 4194560 1 0 0 0 30 12 0", 7, 42, "S", false},
		"cut":           {"7 (x) S 1 7", 7, 0, "S", false},
		"empty":         {"", 7, 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			ticks, state, ok := parseStat([]byte(tt.stat), tt.session)
			if ticks != tt.ticks || state != tt.state || ok != tt.ok {
				t.Errorf("%d %q %v", ticks, state, ok)
			}
		})
	}
}

// TestUsage: a program that works is seen to, with its children.
func TestUsage(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	end := time.After(time.Minute)
	for {
		if ticks, running := usage(cmd.Process.Pid); ticks > 3 && running {
			break
		}
		select {
		case <-end:
			t.Fatal("its work was not seen")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if ticks, running := usage(os.Getpid() << 20); ticks != 0 || running {
		t.Errorf("a session that is not there: %d, %v", ticks, running)
	}
}

func TestRest(t *testing.T) {
	const quiet = 3 * time.Second
	for name, tt := range map[string]struct {
		used []int64 // ticks, by half seconds
		want int     // index of the look at which it is at rest; -1: never
	}{
		"idle from the start": {[]int64{100, 100, 100, 100, 100, 100, 100, 100}, 6},
		"too short":           {[]int64{100, 100, 100, 100}, -1},
		"starting":            {[]int64{0, 40, 80, 120, 150, 160, 161, 161, 161, 161, 161, 161, 162}, 10},
		"wakes a little":      {[]int64{0, 3, 7, 10, 14, 18, 22, 26, 29}, 6},
		"works on":            {[]int64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, -1},
		"a child ends":        {[]int64{500, 500, 90, 90, 90, 90, 90}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			var r rest
			at, got := time.Now(), -1
			for i, ticks := range tt.used {
				if r.look(at, ticks, quiet) {
					got = i
					break
				}
				at = at.Add(quiet / 6)
			}
			if got != tt.want {
				t.Errorf("at rest at look %d, want %d", got, tt.want)
			}
		})
	}
}
