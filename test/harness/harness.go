// Package harness runs a `vmhost serve` of a test's or benchmark's own, with
// images that `make test` has built.
package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/pkg/api/client"
)

// Daemon is a `vmhost serve` in directories of its own.
type Daemon struct {
	Bin     string   // vmhost
	Data    string   // data directory
	Run     string   // runtime directory, short
	Address string   // host:port of the API
	Args    []string // further flags of serve
	Client  *client.Client
	cmd     *exec.Cmd
	done    chan struct{}
}

// New makes directories for a daemon of the program bin; images come from the
// data directory shared.
func New(ctx context.Context, bin, shared string) (*Daemon, error) {
	if shared == "" {
		return nil, errors.New("name a data directory that has the image debian-xfce (make test fills one)")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	data, err := os.MkdirTemp(shared, "run-")
	if err != nil {
		return nil, err
	}
	runtime, err := os.MkdirTemp("/tmp", "dfe")
	if err != nil {
		return nil, err
	}
	// QEMU runs as another user and has to reach its directories.
	for _, dir := range []string{data, runtime} {
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, err
		}
	}
	if err := os.Symlink(filepath.Join(shared, "images"), filepath.Join(data, "images")); err != nil {
		return nil, err
	}
	port, err := FreePort(ctx)
	if err != nil {
		return nil, err
	}
	return &Daemon{Bin: bin, Data: data, Run: runtime, Address: fmt.Sprintf("127.0.0.1:%d", port)}, nil
}

// FreePort finds a TCP port of the loopback that nobody listens on.
func FreePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Start runs the daemon and returns when it answers.
func (d *Daemon) Start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(d.Data, "vmhost.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"--data-dir", d.Data, "serve", "--runtime-dir", d.Run, "--listen", d.Address}, d.Args...)
	cmd := exec.Command(d.Bin, args...) //nolint:noctx // it outlives ctx, until Kill or Stop
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start vmhost serve: %w", err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	d.cmd, d.done = cmd, done
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := client.New("http://"+d.Address, client.WithTokenFile(filepath.Join(d.Data, "token")))
		if err == nil && c.Healthy(ctx) == nil {
			d.Client = c
			return nil
		}
		select {
		case <-tick.C:
		case <-done:
			d.DumpLog()
			return errors.New("vmhost serve ended at once")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// PID is the daemon's process.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Remove removes the directories. Call it after Stop.
func (d *Daemon) Remove() {
	_ = os.RemoveAll(d.Data)
	_ = os.RemoveAll(d.Run)
}

// Kill ends the daemon as a crash would.
func (d *Daemon) Kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// Stop ends the daemon as an operator would.
func (d *Daemon) Stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	<-d.done
}

// DumpLog writes the last complaints in the daemon's log to standard error.
func (d *Daemon) DumpLog() {
	text, err := os.ReadFile(filepath.Join(d.Data, "vmhost.log"))
	if err != nil {
		return
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "level=INFO") {
			lines = append(lines, line)
		}
	}
	fmt.Fprint(os.Stderr, strings.Join(lines[max(0, len(lines)-30):], ""))
}
