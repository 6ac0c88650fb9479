package cli_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/vm"
)

// shop is a real server over a host in memory that runs commands.
type shop struct {
	*hosttest.Fixture

	dir, url, token string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{Fixture: hosttest.New(t), dir: t.TempDir()}
	work, _ := s.Work(s.dir)
	srv, err := server.New(server.Config{Host: s.Host, Sessions: work, Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(srv)
	web.Config = server.HTTP(srv, slog.New(slog.DiscardHandler))
	web.Start()
	t.Cleanup(web.Close)
	s.url = web.URL
	if s.token, err = s.Host.FirstToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// vmhost runs a command line.
func (s *shop) vmhost(ctx context.Context, in string, words ...string) (status int, stdout, stderr *output) {
	stdout, stderr = newOutput(), newOutput()
	cfg := cli.Config{In: strings.NewReader(in), Out: stdout, Err: stderr, Address: s.url}
	return cli.Run(ctx, cfg, append([]string{"--token-file", s.token}, words...)), stdout, stderr
}

// TestRunForAPerson: output, exit status and outputs come through.
func TestRunForAPerson(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	results := filepath.Join(t.TempDir(), "new", "results")
	line := "cat; echo $GREETING >&2; mkdir " + s.dir + "/outputs/d; echo made > " + s.dir + "/outputs/d/x"
	status, stdout, stderr := s.vmhost(t.Context(), "typed\n", "run", "--workspace", "work", "--image", "test", "--workspace-size", "64M",
		"-i", "-e", "GREETING=hello", "--outputs", results, "--", "sh", "-c", line)
	if status != 0 || stdout.String() != "typed\n" || !strings.Contains(stderr.String(), "hello\n") || !strings.Contains(stderr.String(), "vmhost: publishing\n") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if got, err := os.ReadFile(filepath.Join(results, "d", "x")); err != nil || string(got) != "made\n" {
		t.Errorf("output %q, %v", got, err)
	}
	for name, tc := range map[string]struct {
		words  []string
		status int
		says   string
	}{
		"exit status":  {[]string{"--workspace", "work", "--image", "test", "sh", "-c", "exit 42"}, 42, "exit status 42"},
		"signal":       {[]string{"--workspace", "work", "--image", "test", "sh", "-c", "kill -9 $$"}, 137, "KILL"},
		"no image":     {[]string{"--workspace", "work", "--image", "none", "true"}, 4, "none"},
		"no program":   {[]string{"--workspace", "work", "--image", "test", "no-such-program"}, 5, "no-such-program"},
		"no workspace": {[]string{"true"}, 2, "--workspace"},
		"no command":   {[]string{"--workspace", "work"}, 2, "usage"},
	} {
		status, _, stderr := s.vmhost(t.Context(), "", append([]string{"run"}, tc.words...)...)
		if status != tc.status || !strings.Contains(stderr.String(), tc.says) {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
	}
	status, stdout, _ = s.vmhost(t.Context(), "", "--json", "run", "--workspace", "work", "--image", "test", "-q", "--", "echo", "hi")
	if status != 0 || !strings.Contains(stdout.String(), `"state": "completed"`) || strings.Contains(stdout.String(), "hi\n") {
		t.Errorf("JSON: status %d, %s", status, stdout)
	}
}

// TestRunInterrupted: Ctrl-C ends the run, and its end is waited for; who comes
// meanwhile is told that the workspace is taken.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, interrupt := context.WithTimeout(t.Context(), 2*time.Minute)
	defer interrupt()
	type ended struct {
		status int
		stderr string
	}
	done := make(chan ended, 1)
	began := filepath.Join(s.dir, "began")
	go func() {
		status, _, stderr := s.vmhost(ctx, "", "run", "--workspace", "work", "--image", "test", "--workspace-size", "64M", "--", "sh", "-c", "touch "+began+"; exec sleep 1000")
		done <- ended{status, stderr.String()}
	}()
	for _, err := os.Stat(began); err != nil && ctx.Err() == nil; _, err = os.Stat(began) {
		<-time.After(10 * time.Millisecond)
	}
	if status, _, stderr := s.vmhost(t.Context(), "", "run", "--workspace", "work", "--image", "test", "true"); status != 5 || !strings.Contains(stderr.String(), "held by another owner") {
		t.Errorf("beside it: status %d, %s", status, stderr)
	}
	interrupt()
	if e := <-done; e.status != 11 || !strings.Contains(e.stderr, "ending the run") {
		t.Errorf("interrupted: %+v", e)
	}
	if n := len(s.Provider.Machines()); n != 0 {
		t.Errorf("%d machines are left", n)
	}
}

// TestRunWhoseMachineDies says so.
func TestRunWhoseMachineDies(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	began := filepath.Join(s.dir, "began")
	go func() {
		for _, err := os.Stat(began); err != nil && t.Context().Err() == nil; _, err = os.Stat(began) {
			<-time.After(10 * time.Millisecond)
		}
		for _, m := range s.Provider.Machines() {
			m.End(&vm.ExitError{Status: "signal: killed"})
		}
	}()
	status, _, stderr := s.vmhost(t.Context(), "", "run", "--workspace", "work", "--image", "test", "--workspace-size", "64M", "--", "sh", "-c", "touch "+began+"; exec sleep 1000")
	if status != 8 || !strings.Contains(stderr.String(), "the machine is gone") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
