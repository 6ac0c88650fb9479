//go:build integration

package e2e_test

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
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// bootTimeout is how long a cold boot may take on a slow host under software
// emulation.
const bootTimeout = 6 * time.Minute

// daemon is a `vmhost serve` of the tests' own.
type daemon struct {
	bin     string // vmhost
	data    string // data directory
	run     string // runtime directory
	address string
	args    []string // further flags of serve
	cmd     *exec.Cmd
	done    chan struct{}
	client  *client.Client
}

// host is the daemon and desk the desktop that all tests share.
var (
	host *daemon
	desk *client.Desktop
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*bootTimeout)
	defer cancel()
	d, err := newDaemon()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(d.data)
	defer os.RemoveAll(d.run)
	if err := d.start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	host = d
	defer d.stop()
	begin := time.Now()
	desk, err = d.client.Desktops().Create(ctx, api.CreateDesktop{
		Image: "debian-xfce", Name: "main", WorkspaceMiB: 512,
		Labels: map[string]string{"suite": "e2e"},
		Env:    map[string]string{"DESKFORK_E2E": "from create"},
	}, client.Until(api.StageDrawn), client.Within(bootTimeout))
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: create the shared desktop:", err)
		d.dumpLog()
		return 1
	}
	fmt.Fprintf(os.Stderr, "e2e: cold boot to drawn in %s\n", time.Since(begin).Round(time.Second))
	code := m.Run()
	if code != 0 {
		d.dumpLog()
	}
	if err := desk.Delete(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: delete the shared desktop:", err)
		return 1
	}
	return code
}

// newDaemon makes directories for a daemon; images come from the data
// directory that `make test` has filled.
func newDaemon() (*daemon, error) {
	shared := os.Getenv("DESKFORK_E2E_DATA")
	if shared == "" {
		return nil, errors.New("set DESKFORK_E2E_DATA to a data directory that has the image debian-xfce (make test does)")
	}
	bin, err := filepath.Abs("../../bin/vmhost")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("%w: run make build", err)
	}
	data, err := os.MkdirTemp(shared, "e2e-")
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
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return &daemon{bin: bin, data: data, run: runtime, address: fmt.Sprintf("127.0.0.1:%d", port)}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start runs the daemon and returns when it answers.
func (d *daemon) start(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(d.data, "vmhost.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"--data-dir", d.data, "serve", "--runtime-dir", d.run, "--listen", d.address}, d.args...)
	cmd := exec.Command(d.bin, args...)
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
		c, err := client.New("http://"+d.address, client.WithTokenFile(filepath.Join(d.data, "token")))
		if err == nil && c.Healthy(ctx) == nil {
			d.client = c
			return nil
		}
		select {
		case <-tick.C:
		case <-done:
			d.dumpLog()
			return errors.New("vmhost serve ended at once")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.done
}

// stop ends the daemon as an operator would.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	<-d.done
}

func (d *daemon) dumpLog() {
	text, err := os.ReadFile(filepath.Join(d.data, "vmhost.log"))
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	fmt.Fprintln(os.Stderr, strings.Join(lines[max(0, len(lines)-60):], "\n"))
}
