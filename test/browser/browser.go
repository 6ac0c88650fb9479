// Package browser runs scripts that drive Debian's Chromium, for tests of what people
// see in one. A script is JavaScript beside its test; it begins with
// require(process.env.DRIVER), which launch.js describes.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Script is one that runs.
type Script struct {
	tb    testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	in    *json.Encoder
	done  bool
}

// here is this package's folder.
func here(tb testing.TB) string {
	tb.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		tb.Fatal("the folder of the driver is not known")
	}
	dir := filepath.Dir(file)
	if filepath.IsAbs(dir) {
		return dir
	}
	// Under -trimpath a file's name begins with its module's: find the module.
	for up, err := os.Getwd(); err == nil && up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "test", "browser", "launch.js")); err == nil {
			return filepath.Join(up, "test", "browser")
		}
	}
	tb.Fatal("test/browser is not above the test's folder")
	return ""
}

// Start runs a script with one argument, sent as JSON, until the test ends or limit
// has passed.
func Start(tb testing.TB, script string, arg any, limit time.Duration) *Script {
	tb.Helper()
	dir := here(tb)
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		tb.Fatalf("playwright-core is needed (scripts/deps.sh test installs it): %v", err)
	}
	given, err := json.Marshal(arg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	s := &Script{tb: tb, cmd: exec.CommandContext(ctx, "node", script, string(given))}
	s.cmd.Env = append(s.cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "DRIVER="+filepath.Join(dir, "launch.js"))
	s.cmd.Stderr = os.Stderr
	s.cmd.WaitDelay = 10 * time.Second
	// So that it ends its browser itself.
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	s.lines, s.in = bufio.NewScanner(out), json.NewEncoder(in)
	s.lines.Buffer(nil, 1<<20)
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if !s.done {
			cancel()
			_ = s.cmd.Wait() // the test has failed already
		}
		cancel()
	})
	return s
}

// Next waits for the next thing that the script says, and reads it into v. It fails
// the test when the script has ended.
func (s *Script) Next(v any) {
	s.tb.Helper()
	if !s.lines.Scan() {
		s.done = true
		s.tb.Fatalf("the script has ended: %v", s.cmd.Wait())
	}
	if err := json.Unmarshal(s.lines.Bytes(), v); err != nil {
		s.tb.Fatalf("the script says %q: %v", s.lines.Text(), err)
	}
}

// Say tells the script something.
func (s *Script) Say(v any) {
	s.tb.Helper()
	if err := s.in.Encode(v); err != nil {
		s.tb.Fatal(err)
	}
}

// Wait fails the test unless the script ends well.
func (s *Script) Wait() {
	s.tb.Helper()
	for s.lines.Scan() { // what nobody asked for
		s.tb.Logf("the script says %s", s.lines.Text())
	}
	s.done = true
	if err := s.cmd.Wait(); err != nil {
		s.tb.Fatalf("the script: %v", err)
	}
}
