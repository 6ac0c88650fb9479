// Package s3test runs a real S3 server for tests, on the loopback interface and
// a directory, and a proxy that spoils connections to it.
package s3test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The server and its version. The binary is built once and kept.
const (
	module  = "github.com/versity/versitygw/cmd/versitygw"
	version = "v1.8.0"
)

// What a client needs besides the address.
const (
	Bucket    = "bucket"
	AccessKey = "access"
	SecretKey = "secret-of-a-test"
)

// Start runs a server with an empty bucket until the end of the test and gives
// its host:port. Root of what it stores is root: an object KEY is the file
// root/data/bucket/KEY.
func Start(tb testing.TB, root string) string {
	tb.Helper()
	addr, stop, err := Run(context.Background(), root)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return addr
}

// Run is Start for what is no test; stop ends the server.
func Run(ctx context.Context, root string) (addr string, stop func(), err error) {
	const tries = 5 // the server must be told its port, which anybody may take first
	for range tries {
		if addr, stop, err = run(ctx, root); !errors.Is(err, errTaken) {
			break
		}
	}
	return addr, stop, err
}

var errTaken = errors.New("its port is taken")

func run(ctx context.Context, root string) (addr string, stop func(), err error) {
	data, side := filepath.Join(root, "data"), filepath.Join(root, "meta")
	for _, d := range []string{filepath.Join(data, Bucket), side} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", nil, err
		}
	}
	program, err := binary(ctx)
	if err != nil {
		return "", nil, err
	}
	if addr, err = freePort(ctx); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cmd := exec.CommandContext(ctx, program, "--port", addr, "--quiet", "posix", "--sidecar", side, data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey) //nolint:forbidigo // a child of a test
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		cancel()
		return "", nil, fmt.Errorf("start S3 server: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	stop = func() {
		cancel()
		<-ended
	}
	for end := time.Now().Add(2 * time.Minute); !answers(ctx, addr); {
		select {
		case <-ended:
			stop()
			err := fmt.Errorf("S3 server ended: %s", out.Bytes())
			if bytes.Contains(out.Bytes(), []byte("address already in use")) {
				err = errors.Join(err, errTaken)
			}
			return "", nil, err
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			stop()
			return "", nil, errors.New("S3 server does not answer")
		}
	}
	return addr, stop, nil
}

func answers(ctx context.Context, addr string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return true
}

func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// binary finds the server or builds it.
func binary(ctx context.Context) (string, error) {
	dir := os.Getenv("DESKFORK_TEST_CACHE") //nolint:forbidigo // tests have no flags of ours
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "deskfork-test")
	}
	path := filepath.Join(dir, "versitygw-"+version)
	if err := once(ctx, dir, path); err != nil {
		return "", fmt.Errorf("build the S3 server: %w", err)
	}
	return path, nil
}

// once lets one of several tests and test processes build, while others wait.
func once(ctx context.Context, dir, path string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "versitygw.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return build(ctx, dir, path)
}

func build(ctx context.Context, dir, path string) error {
	temp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	ctx, cancel := context.WithTimeout(ctx, 9*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", module+"@"+version)
	cmd.Dir = temp
	cmd.Env = append(os.Environ(), "GOBIN="+temp, "GOFLAGS=-mod=mod") //nolint:forbidigo // a child of a test
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(filepath.Join(temp, "versitygw"), path)
}
