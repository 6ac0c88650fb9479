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
	"github.com/deskfork/deskfork/pkg/api"
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
	s.url = "http://" + s.serve(t)
	var err error
	if s.token, err = s.Host.FirstToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve serves the present host at an address until the test ends.
func (s *shop) serve(t *testing.T) (address string) {
	t.Helper()
	work, _ := s.Work(s.dir)
	srv, err := server.New(server.Config{Host: s.Host, Sessions: work, Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(srv)
	web.Config = server.HTTP(srv, slog.New(slog.DiscardHandler))
	web.Start()
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
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
	again := t.TempDir()
	if status, stdout, stderr := s.vmhost(t.Context(), "", "outputs", "get", "work", "--into", again); status != 0 || !strings.HasPrefix(stdout.String(), "1 outputs in ") {
		t.Errorf("get: status %d, %q, %q", status, stdout, stderr)
	}
	if got, err := os.ReadFile(filepath.Join(again, "d", "x")); err != nil || string(got) != "made\n" {
		t.Errorf("output again %q, %v", got, err)
	}
	status, stdout, stderr = s.vmhost(t.Context(), "", "outputs", "ls", "work")
	id, _, _ := strings.Cut(stdout.String(), " ")
	if status != 0 || !strings.HasPrefix(id, "out_") {
		t.Errorf("ls: status %d, %q, %q", status, stdout, stderr)
	}
	if status, stdout, stderr := s.vmhost(t.Context(), "", "outputs", "ls", "work", id); status != 0 || stdout.String() != "d/x  5 B\n" {
		t.Errorf("ls of one: status %d, %q, %q", status, stdout, stderr)
	}
	if status, _, stderr := s.vmhost(t.Context(), "", "outputs", "get", "none"); status != api.CodeNotFound.ExitStatus() {
		t.Errorf("get of none: status %d, %q", status, stderr)
	}
	if status, stdout, stderr := s.vmhost(t.Context(), "", "outputs", "prune", "--last", "5"); status != 0 || stdout.String() != "1 kept, 0 dropped, 0 spared; 0 inputs; 0 B in 0 objects\n" {
		t.Errorf("prune: status %d, %q, %q", status, stdout, stderr)
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

// TestRunWithInputsForAPerson: files go along under the names that they are given.
func TestRunWithInputsForAPerson(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	here := t.TempDir()
	for name, text := range map[string]string{"data.csv": "one\n", "b=c": "two\n"} {
		if err := os.WriteFile(filepath.Join(here, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	words := func(more ...string) []string {
		return append([]string{"run", "--workspace", "work", "--image", "test", "--workspace-size", "64M"}, more...)
	}
	status, stdout, stderr := s.vmhost(t.Context(), "", words("--input", filepath.Join(here, "data.csv"), "--input", "d/x="+filepath.Join(here, "b=c"),
		"--", "sh", "-c", "cd "+s.dir+"/inputs && cat data.csv d/x")...)
	if status != 0 || stdout.String() != "one\ntwo\n" || !strings.Contains(stderr.String(), "vmhost: putting the inputs\n") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	for name, tc := range map[string]struct{ word, says string }{
		"none":        {filepath.Join(here, "none"), "no such file"},
		"a directory": {here, "tar"},
		"no hash":     {"x=https://h/x", "#sha256="},
		"bad hash":    {"x=https://h/x?a=b#sha256=1", "validation failed"},
		"up and away": {"../x=" + filepath.Join(here, "data.csv"), "leads nowhere else"},
	} {
		status, _, stderr := s.vmhost(t.Context(), "", words("--input", tc.word, "true")...)
		if status != 2 || !strings.Contains(stderr.String(), tc.says) {
			t.Errorf("%s: status %d, %s", name, status, stderr)
		}
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
