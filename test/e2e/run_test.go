//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/deskfork/deskfork/test/harness"
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
	return beginOn(t, host, workspace, line, flags...)
}

// beginOn is begin on a host of the caller's.
func beginOn(t *testing.T, d *harness.Daemon, workspace, line string, flags ...string) *vmhostRun {
	t.Helper()
	words := append([]string{"--data-dir", d.Data, "run", "--workspace", workspace, "--workspace-size", "512M"}, flags...)
	r := &vmhostRun{cmd: exec.Command(d.Bin, append(words, "--", "sh", "-c", line)...), done: make(chan struct{})}
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
	return machinesOn(t, host, workspace)
}

func machinesOn(t *testing.T, d *harness.Daemon, workspace string) []string {
	t.Helper()
	list, err := d.Client.Desktops().List(t.Context(), client.Filter{Labels: map[string]string{"session": workspace}})
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
	cut.ends(t, api.CodeGuestUnavail.ExitStatus()) // the next daemon has found out that nothing counts
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

// TestInputsOnRealDesktops: files of this machine are in the guest to the byte before
// the command begins, in no workspace, and the command cannot change them; one that is
// not what was asked for ends the run before its command, and a machine that is kept
// has none.
func TestInputsOnRealDesktops(t *testing.T) {
	beside(t)
	w, here := newWorkspace(), t.TempDir()
	big := make([]byte, 40<<20+1)
	_, _ = rand.Read(big) // never fails
	for name, content := range map[string][]byte{"big": big, "none": {}, "list.txt": []byte("one\ntwo\n")} {
		if err := os.WriteFile(filepath.Join(here, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(big)
	file := func(name string) string { return filepath.Join(here, name) }
	out := begin(t, w, "cd /mnt/session/inputs && sha256sum < d/big && find . -type f | sort && cat list.txt; "+
		"for f in list.txt d/big new; do echo worse 2>/dev/null > $f && echo changed $f; done; rm -f list.txt 2>/dev/null; ls; cp list.txt /workspace; stat -c '%U %a' . list.txt",
		"--input", file("list.txt"), "--input", "d/big="+file("big"), "--input", "d/none="+file("none")).ends(t, 0)
	if want := hex.EncodeToString(sum[:]) + "  -\n./d/big\n./d/none\n./list.txt\none\ntwo\nd\nlist.txt\nroot 555\nroot 444\n"; out != want {
		t.Errorf("the command says %q, want %q", out, want)
	}
	if got := begin(t, w, "cat list.txt; test ! -e /mnt/session/inputs && echo none").ends(t, 0); got != "one\ntwo\nnone\n" {
		t.Errorf("the next sees %q", got)
	}
	in, err := host.Client.Runs().Upload(t.Context(), strings.NewReader("hello"), 5)
	if err != nil {
		t.Fatal(err)
	}
	r, err := host.Client.Runs().Start(t.Context(), api.StartRun{
		Workspace: w, Image: "debian-xfce", Argv: []string{"touch", "/workspace/began"},
		Inputs: []api.RunInput{{Path: "x", ID: in.ID, Hash: "sha256:" + strings.Repeat("0", 64)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range host.Client.Runs().Events(t.Context(), r.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == api.RunEnd && (e.Run.State != api.RunFailed || e.Run.Error.Code != api.CodePrecondition || e.Run.Error.Stage != "session inputs") {
			t.Errorf("another hash: %+v, %v", e.Run, e.Run.Error)
		}
	}
	if got := begin(t, w, "ls; cat /mnt/session/inputs/y", "--input", "y="+file("list.txt"), "--keep", "nothing").ends(t, 0); strings.Contains(got, "began") || !strings.HasSuffix(got, "one\ntwo\n") {
		t.Errorf("the last sees %q", got)
	}
	if left := machinesOf(t, w); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	m := newWorkspace()
	begin(t, m, "cat /mnt/session/inputs/y", "--input", "y="+file("list.txt"), "--keep", "machine").ends(t, 0)
	begin(t, m, "test ! -e /mnt/session/inputs", "--keep", "machine").ends(t, 0)
	for _, id := range machinesOf(t, m) {
		if err := host.Client.Desktop(id).Delete(t.Context()); err != nil && !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			t.Error(err)
		}
	}
}
