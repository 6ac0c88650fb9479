//go:build linux

package singleton_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/guesthelper/singleton"
)

// browser answers like Chromium on a profile, and tells what came.
func browser(t *testing.T, answer string) (profile string, came <-chan string) {
	t.Helper()
	profile, other := t.TempDir(), t.TempDir()
	socket := filepath.Join(other, "SingletonSocket")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for name, target := range map[string]string{
		filepath.Join(profile, "SingletonSocket"): socket,
		filepath.Join(profile, "SingletonCookie"): "4711",
		filepath.Join(other, "SingletonCookie"):   "4711",
	} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		got <- string(b)
		io.WriteString(c, answer) //nolint:errcheck // the other end sees it
	}()
	return profile, got
}

func TestOpen(t *testing.T) {
	t.Parallel()
	profile, came := browser(t, "ACK")
	pid, err := singleton.Open(t.Context(), profile, "/home/a", "https://a.example/?q=ä b", "page.html")
	if err != nil || pid != os.Getpid() {
		t.Errorf("process %d, %v; want %d", pid, err, os.Getpid())
	}
	if got, want := <-came, "START\x00/home/a\x00chromium\x00https://a.example/?q=ä b\x00page.html"; got != want {
		t.Errorf("handed over %q, want %q", got, want)
	}
}

// TestNone: whoever does not take the address, it is said, for the browser is then started.
func TestNone(t *testing.T) {
	t.Parallel()
	ending, _ := browser(t, "SHUTDOWN")
	cut, _ := browser(t, "")
	foreign, _ := browser(t, "ACK")
	if err := errors.Join(os.Remove(filepath.Join(foreign, "SingletonCookie")), os.Symlink("1", filepath.Join(foreign, "SingletonCookie"))); err != nil {
		t.Fatal(err)
	}
	stale, _ := browser(t, "ACK")
	if socket, err := os.Readlink(filepath.Join(stale, "SingletonSocket")); err != nil || os.Remove(socket) != nil {
		t.Fatal(err)
	}
	for name, profile := range map[string]string{"ending": ending, "cut": cut, "foreign": foreign, "stale": stale, "none": t.TempDir()} {
		if _, err := singleton.Open(t.Context(), profile, "/", "https://a.example"); !errors.Is(err, singleton.ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInvalid: what Chromium would read as something else than addresses goes nowhere.
func TestInvalid(t *testing.T) {
	t.Parallel()
	profile, came := browser(t, "ACK")
	for _, a := range []string{"", "--load-extension=/tmp/x", "https://a\x00--no-sandbox", "https://" + strings.Repeat("a", 32<<10)} {
		if _, err := singleton.Open(t.Context(), profile, "/", a); !errors.Is(err, singleton.ErrInvalid) {
			t.Errorf("%.40q: %v", a, err)
		}
	}
	select {
	case got := <-came:
		t.Errorf("handed over %q", got)
	default:
	}
}

// TestHangingBrowser: one that does not answer is waited for as long as the caller wishes.
func TestHangingBrowser(t *testing.T) {
	t.Parallel()
	profile, _ := browser(t, "ACK")
	socket, err := os.Readlink(filepath.Join(profile, "SingletonSocket"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		c, err := l.Accept()
		if err == nil {
			defer c.Close()
			io.Copy(io.Discard, c) //nolint:errcheck // until the message has come
		}
		cancel()
		<-t.Context().Done()
	}()
	if _, err := singleton.Open(ctx, profile, "/", "https://a.example"); !errors.Is(err, context.Canceled) {
		t.Errorf("Open says %v", err)
	}
}
