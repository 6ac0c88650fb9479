//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// vmhostRun is one run of the command line.
type vmhostRun struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// tee writes under a mutex.
type tee struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (t tee) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

// begin starts a run of a line of shell in a workspace.
func begin(t *testing.T, workspace, line string, flags ...string) *vmhostRun {
	t.Helper()
	words := append([]string{"--data-dir", host.Data, "run", "--workspace", workspace, "--workspace-size", "512M"}, flags...)
	r := &vmhostRun{cmd: exec.Command(host.Bin, append(words, "--", "sh", "-c", line)...), done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = tee{&r.mu, &r.stdout}, tee{&r.mu, &r.stderr}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // its state says how
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
	return r
}

// says is what it has written so far.
func (r *vmhostRun) says() (stdout, stderr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stdout.String(), r.stderr.String()
}

// until waits for what the command prints.
func (r *vmhostRun) until(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; <-time.After(50 * time.Millisecond) {
		stdout, stderr := r.says()
		if strings.Contains(stdout, text) {
			return
		}
		select {
		case <-r.done:
			t.Fatalf("the run ended before it said %q: %s", text, stderr)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run did not say %q: %s", text, stderr)
		}
	}
}

// ends waits for the end and compares the exit status.
func (r *vmhostRun) ends(t *testing.T, status int) string {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(6 * time.Minute):
		t.Fatal("the run does not end")
	}
	stdout, stderr := r.says()
	if got := r.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d, want %d: %s", got, status, stderr)
	}
	return stdout
}

// machinesOf lists the desktops of a session.
func machinesOf(t *testing.T, workspace string) []string {
	t.Helper()
	list, err := host.Client.Desktops().List(t.Context(), client.Filter{Labels: map[string]string{"session": workspace}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range list {
		ids = append(ids, d.ID)
	}
	return ids
}

func newWorkspace() string { return "run-" + strings.ToLower(rand.Text()[:8]) } // the host of the tests is kept

// TestRunOnRealDesktops: a second run sees what the first one wrote; one that fails,
// one that is interrupted and one whose machine is killed leave the former state; of
// two at a time one conflicts; outputs come to the byte, and nothing is left.
func TestRunOnRealDesktops(t *testing.T) {
	beside(t)
	w, results := newWorkspace(), t.TempDir()
	out := begin(t, w, "pwd; id -un; echo one > a; seq 100000 > /mnt/session/outputs/numbers; mkdir /mnt/session/outputs/d; head -c 3000000 /dev/urandom > /mnt/session/outputs/d/r; sha256sum < /mnt/session/outputs/d/r",
		"--outputs", results).ends(t, 0)
	lines := strings.Fields(out)
	if len(lines) != 4 || lines[0] != "/workspace" || lines[1] != "agent" {
		t.Errorf("the first says %q", out)
	}
	if sum, err := exec.CommandContext(t.Context(), "sha256sum", filepath.Join(results, "d", "r")).Output(); err != nil || len(lines) > 2 && !strings.HasPrefix(string(sum), lines[2]) {
		t.Errorf("output is %s, %v", sum, err)
	}
	if info, err := os.Stat(filepath.Join(results, "numbers")); err != nil || info.Size() != 588895 {
		t.Errorf("numbers: %v, %v", info, err)
	}
	if got := begin(t, w, "cat a; echo worse > a; sync; exit 3").ends(t, 3); got != "one\n" {
		t.Errorf("the second sees %q", got)
	}
	long := begin(t, w, "cat a; echo worse > a; sync; echo here; sleep 600")
	long.until(t, "here")
	begin(t, w, "true").ends(t, 5)
	if err := long.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := long.ends(t, 11); got != "one\nhere\n" {
		t.Errorf("the third sees %q", got)
	}
	killed := begin(t, w, "echo worse > a; sync; echo here; sleep 600")
	killed.until(t, "here")
	for _, id := range machinesOf(t, w) {
		for _, pid := range pidsOf(t, id) {
			if err := exec.CommandContext(t.Context(), "kill", "-9", pid).Run(); err != nil {
				t.Error(err)
			}
		}
	}
	killed.ends(t, 8)
	if got := begin(t, w, "cat a; cat /mnt/session/outputs/* 2>/dev/null; true").ends(t, 0); got != "one\n" {
		t.Errorf("the last sees %q", got)
	}
	if left := machinesOf(t, w); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	v, err := host.Client.Workspaces().Verify(t.Context(), w)
	if err != nil || !v.OK {
		t.Errorf("verify: %+v, %v", v, err)
	}
	log, err := host.Client.Workspaces().Log(t.Context(), w)
	if err != nil || len(log) != 2 || log[0].Parent != log[1].Ref || !log[0].Frozen || log[0].Full != "" {
		t.Errorf("published: %+v, %v", log, err)
	}
}

// TestDaemonKilledInARun: the next daemon ends the machine, and the next run goes on
// from what was published. A retained machine comes through with its programs.
func TestDaemonKilledInARun(t *testing.T) {
	alone(t)
	w := newWorkspace()
	begin(t, w, "echo one > a").ends(t, 0)
	cut := begin(t, w, "echo worse > a; sync; echo here; sleep 600")
	cut.until(t, "here")
	left := machinesOf(t, w)
	if len(left) != 1 {
		t.Fatalf("machines of the run: %v", left)
	}
	host.Kill()
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := begin(t, w, "cat a").ends(t, 0); got != "one\n" {
		t.Errorf("the next sees %q", got)
	}
	desk{host.Client.Desktop(left[0])}.until(t, 3*time.Minute, "the machine is gone", func(context.Context) error {
		if pids := pidsOf(t, left[0]); len(pids) > 0 || slices.Contains(machinesOf(t, w), left[0]) {
			return fmt.Errorf("processes %v", pids)
		}
		return nil
	})
	cut.ends(t, api.CodeNotFound.ExitStatus())
	m := newWorkspace()
	begin(t, m, "setsid sh -c 'echo $$ > pid; exec sleep 1000' > /dev/null 2>&1 < /dev/null & while test ! -s pid; do sleep 0.1; done", "--keep", "machine").ends(t, 0)
	if got := begin(t, m, "kill -0 $(cat pid) && echo alive", "--keep", "machine").ends(t, 0); got != "alive\n" {
		t.Errorf("in the retained machine: %q", got)
	}
	var kept []string
	desk{host.Client.Desktop(left[0])}.until(t, 3*time.Minute, "the old machine goes", func(context.Context) error {
		if kept = machinesOf(t, m); len(kept) != 1 {
			return errors.New("there are more")
		}
		return nil
	})
	if err := host.Client.Desktop(kept[0]).Delete(t.Context()); err != nil {
		t.Error(err)
	}
}
