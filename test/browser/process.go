package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// Process is a script that runs, for programs that are no tests.
type Process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	in    *json.Encoder
}

// Run starts a script with one argument, sent as JSON. It is interrupted when ctx ends.
func Run(ctx context.Context, script string, arg any) (*Process, error) {
	dir, err := here()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		return nil, fmt.Errorf("playwright-core is needed (scripts/deps.sh test installs it): %w", err)
	}
	given, err := json.Marshal(arg)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, "node", script, string(given))}
	p.cmd.Env = append(p.cmd.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"), "DRIVER="+filepath.Join(dir, "launch.js"))
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = 10 * time.Second
	// So that it ends its browser itself.
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.lines, p.in = bufio.NewScanner(out), json.NewEncoder(in)
	p.lines.Buffer(nil, 1<<20)
	return p, p.cmd.Start()
}

// Next waits for the next thing that the script says, and reads it into v.
func (p *Process) Next(v any) error {
	if !p.lines.Scan() {
		return fmt.Errorf("the script has ended: %w", errors.Join(p.lines.Err(), p.cmd.Wait()))
	}
	if err := json.Unmarshal(p.lines.Bytes(), v); err != nil {
		return fmt.Errorf("the script says %q: %w", p.lines.Text(), err)
	}
	return nil
}

// Say tells the script something.
func (p *Process) Say(v any) error { return p.in.Encode(v) }

// Wait returns when the script has ended. What it says meanwhile is lost, but for heard.
func (p *Process) Wait(heard func(line string)) error {
	for p.lines.Scan() {
		if heard != nil {
			heard(p.lines.Text())
		}
	}
	return p.cmd.Wait()
}

// File finds a file of the repository, from any folder in it.
func File(name string) (string, error) {
	dir, err := here()
	return filepath.Join(dir, "..", "..", filepath.FromSlash(name)), err
}

// here is this package's folder.
func here() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the folder of the driver is not known")
	}
	dir := filepath.Dir(file)
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	// Under -trimpath a file's name begins with its module's: find the module.
	for up, err := os.Getwd(); err == nil && up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "test", "browser", "launch.js")); err == nil {
			return filepath.Join(up, "test", "browser"), nil
		}
	}
	return "", errors.New("test/browser is not above this folder")
}
