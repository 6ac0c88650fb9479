// Package harness runs a `vmhost serve` of a test's or benchmark's own, with
// images that `make test` has built.
package harness

import (
	"context"
	"crypto/tls"
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

// BootTimeout is how long a boot, and the sealing of a boot snapshot, may take on
// a slow host under software emulation.
const BootTimeout = 8 * time.Minute

const logName = "vmhost.log"

// Daemon is a `vmhost serve` in directories of its own.
type Daemon struct {
	Bin     string      // vmhost
	Data    string      // data directory
	Run     string      // runtime directory, short
	Address string      // host:port of the API
	Args    []string    // further flags of serve
	TLS     *tls.Config // how clients verify a daemon that Args let speak TLS; nil: it does not
	Client  *client.Client
	kept    bool // Data stays
	cmd     *exec.Cmd
	done    chan struct{}
}

// New makes directories for a daemon of the program bin; images come from the
// data directory shared.
func New(ctx context.Context, bin, shared string) (*Daemon, error) {
	if shared == "" {
		return nil, errors.New("name a data directory that has the image debian-xfce (make test fills one)")
	}
	data, err := os.MkdirTemp(shared, "run-")
	if err != nil {
		return nil, err
	}
	return in(ctx, bin, shared, data)
}

// Kept is New for a daemon whose data directory stays, with the boot snapshots in
// it: the next run's desktops are clones from the start. What desktops an earlier
// run has left there, because it was killed, Start brings back.
func Kept(ctx context.Context, bin, shared string) (*Daemon, error) {
	if shared == "" {
		return nil, errors.New("name a data directory that has the image debian-xfce (make test fills one)")
	}
	data := filepath.Join(shared, "host")
	if err := os.MkdirAll(data, 0o711); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(data, logName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	d, err := in(ctx, bin, shared, data)
	if err == nil {
		d.kept = true
	}
	return d, err
}

func in(ctx context.Context, bin, shared, data string) (*Daemon, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
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
	err = os.Symlink(filepath.Join(shared, "images"), filepath.Join(data, "images"))
	if err != nil && !errors.Is(err, os.ErrExist) {
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
	log, err := os.OpenFile(filepath.Join(d.Data, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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
		c, err := client.New(d.URL(), client.WithTokenFile(filepath.Join(d.Data, "token")), client.WithTLS(d.TLS))
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

// URL is the API's.
func (d *Daemon) URL() string {
	if d.TLS != nil {
		return "https://" + d.Address
	}
	return "http://" + d.Address
}

// PID is the daemon's process.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }

// Remove removes the directories that do not stay. Call it after Stop.
func (d *Daemon) Remove() {
	if !d.kept {
		_ = os.RemoveAll(d.Data)
	}
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
	text, err := os.ReadFile(filepath.Join(d.Data, logName))
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
