//go:build integration

package guestd_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/guest/guesttest"
)

// TestRealGuest runs against a booted guest whose port is forwarded to
// DESKFORK_GUEST_ADDR; its token is DESKFORK_GUEST_TOKEN.
func TestRealGuest(t *testing.T) {
	addr := os.Getenv("DESKFORK_GUEST_ADDR")
	if addr == "" {
		t.Fatal("set DESKFORK_GUEST_ADDR to the forwarded port of a booted guest")
	}
	c := guesttest.Run(t, client.Config{
		Token: os.Getenv("DESKFORK_GUEST_TOKEN"), Scale: 4,
		Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) },
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	hello, err := c.Hello(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("hello %+v", hello)
	entropy := make([]byte, 64)
	_, _ = rand.Read(entropy)
	h := guest.Handshake{Now: time.Now(), Entropy: entropy, Generation: "g-" + rand.Text(), Workspace: "/dev/vdb", Env: map[string]string{"FROM_HOST": "yes"}, User: "agent"}
	for range 2 {
		if err := c.Handshake(ctx, h); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("identity", func(t *testing.T) { identity(ctx, t, c) })
	t.Run("clock", func(t *testing.T) {
		info, err := c.System.Info(ctx)
		if err != nil || time.Since(info.Now).Abs() > 20*time.Second || info.Generation != h.Generation {
			t.Errorf("info %+v, %v", info, err)
		}
		t.Logf("info %+v", info)
	})
	t.Run("owner", func(t *testing.T) { owner(ctx, t, c) })
	t.Run("full disk", func(t *testing.T) { fullDisk(ctx, t, c) })
	t.Run("deadline", func(t *testing.T) { deadline(ctx, t, c) })
	t.Run("latency", func(t *testing.T) { latency(ctx, t, c) })
	t.Run("large", func(t *testing.T) { large(ctx, t, c) })
	t.Run("desktop", func(t *testing.T) { desktop(ctx, t, c) })
}

func out(ctx context.Context, t *testing.T, c *client.Client, spec guest.ExecSpec) string {
	t.Helper()
	res, err := c.Exec.Output(ctx, spec, nil)
	if err != nil {
		t.Error(err)
	}
	return string(res.Stdout)
}

func identity(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	script := `id -un; id -Gn; pwd; echo $HOME $USER $SHELL $DISPLAY $XAUTHORITY $DBUS_SESSION_BUS_ADDRESS $XDG_RUNTIME_DIR $FROM_HOST; cat /proc/self/oom_score_adj /proc/self/cgroup`
	t.Log(out(ctx, t, c, guest.ExecSpec{Shell: script}))
	if got := out(ctx, t, c, guest.ExecSpec{Argv: []string{"id", "-un"}}); got != "agent\n" {
		t.Errorf("default user %q", got)
	}
	if got := out(ctx, t, c, guest.ExecSpec{Argv: []string{"id", "-un"}, User: "root"}); got != "root\n" {
		t.Errorf("root is %q", got)
	}
	if got := out(ctx, t, c, guest.ExecSpec{Shell: "tty; stat -c %U $(tty)", PTY: true}); !strings.Contains(got, "agent") {
		t.Errorf("terminal %q", got)
	}
	if got := out(ctx, t, c, guest.ExecSpec{Argv: []string{"cat", "/proc/self/oom_score_adj"}}); got != "0\n" {
		t.Errorf("programs are shielded from the out-of-memory killer: %q", got)
	}
}

func owner(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	fi, err := c.Files.Write(ctx, "/workspace/hello", client.WriteOptions{}, strings.NewReader("x"))
	if err != nil || fi.User != "agent" || fi.Group != "agent" {
		t.Errorf("%+v, %v", fi, err)
	}
	if _, err := c.Files.Write(ctx, "/etc/owned", client.WriteOptions{}, strings.NewReader("x")); !errors.Is(err, &guest.Error{Code: guest.CodePermission}) {
		t.Errorf("agent writes to /etc: %v", err)
	}
	if _, _, err := c.Files.Read(ctx, "/etc/shadow", 0, -1); !errors.Is(err, &guest.Error{Code: guest.CodePermission}) {
		t.Errorf("agent reads shadow: %v", err)
	}
	if fi, err := c.Files.As("root").Write(ctx, "/etc/owned", client.WriteOptions{}, strings.NewReader("x")); err != nil || fi.User != "root" {
		t.Errorf("root writes to /etc: %+v, %v", fi, err)
	}
	if fi, err := c.Files.Stat(ctx, "~"); err != nil || fi.Path != "/home/agent" {
		t.Errorf("home %+v, %v", fi, err)
	}
	if _, err := c.Files.TarIn(ctx, "/etc/tar", bytes.NewReader(nil)); !errors.Is(err, &guest.Error{Code: guest.CodePermission}) {
		t.Errorf("agent unpacks in /etc: %v", err)
	}
}

func fullDisk(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	_, err := c.Files.Write(ctx, "/workspace/big", client.WriteOptions{}, io.LimitReader(zero{}, 600<<20))
	if !errors.Is(err, &guest.Error{Code: guest.CodeNoSpace}) {
		t.Errorf("600 MiB into 512: %v", err)
	}
	if got := out(ctx, t, c, guest.ExecSpec{Argv: []string{"ls", "-A", "/workspace"}}); got != "hello\nlost+found\n" {
		t.Errorf("left behind: %q", got)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func deadline(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	spec := guest.ExecSpec{Shell: `sleep 1000 & (env -i setsid sleep 1001 &); echo up; wait`, Timeout: 3 * time.Second}
	res, err := c.Exec.Run(ctx, spec, nil)
	if err != nil || !res.Status.TimedOut || string(res.Stdout) != "up\n" {
		t.Errorf("%+v, %v", res.Status, err)
	}
	if res, err := c.Exec.Run(ctx, guest.ExecSpec{Argv: []string{"pgrep", "-a", "-x", "sleep"}}, nil); err != nil || len(res.Stdout) > 0 {
		t.Errorf("left after the deadline: %q, %v", res.Stdout, err)
	}
	groups := out(ctx, t, c, guest.ExecSpec{Shell: "ls -d /sys/fs/cgroup/system.slice/guestd.service/exec-* | wc -l", User: "root"})
	t.Logf("control groups, its own included: %s", groups)
}

func latency(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	var all []time.Duration
	for range 30 {
		began := time.Now()
		if _, err := c.Exec.Output(ctx, guest.ExecSpec{Argv: []string{"true"}}, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	t.Logf("exec true: p50 %s, best %s, worst %s", all[15], all[0], all[29])
}

func large(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	data := make([]byte, 48<<20)
	_, _ = rand.Read(data)
	began := time.Now()
	if _, err := c.Files.Write(ctx, "/tmp/large", client.WriteOptions{}, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	up := time.Since(began)
	if got, want := out(ctx, t, c, guest.ExecSpec{Argv: []string{"sha256sum", "/tmp/large"}}), fmt.Sprintf("%x  /tmp/large\n", sha256.Sum256(data)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	began = time.Now()
	r, _, err := c.Files.Read(ctx, "/tmp/large", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	back, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(back, data) {
		t.Errorf("%d bytes came back, %v", len(back), err)
	}
	t.Logf("48 MiB up in %s, down in %s", up, time.Since(began))
}

func desktop(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	var err error
	for range 600 {
		if _, err = c.Desktop.Ready(ctx); err == nil {
			break
		}
		<-time.After(200 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		began := time.Now()
		shot, err := c.Desktop.Screenshot(ctx, guest.ScreenshotParams{})
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.DecodeConfig(bytes.NewReader(shot.Data))
		t.Logf("screenshot %dx%d, %d bytes in %s", img.Width, img.Height, len(shot.Data), time.Since(began))
		if err != nil || img.Width != 1280 {
			t.Errorf("%+v, %v", img, err)
		}
	}
	const text = "clipboard: ü 漢 🙂\n"
	if err := c.Desktop.ClipboardSet(ctx, guest.Clipboard{Type: "text/plain", Data: []byte(text)}); err != nil {
		t.Error(err)
	}
	if got, err := c.Desktop.ClipboardGet(ctx, "text/plain"); err != nil || string(got.Data) != text {
		t.Errorf("clipboard %q, %v", got.Data, err)
	}
	out(ctx, t, c, guest.ExecSpec{Shell: "pkill -9 Xorg", User: "root"})
	out(ctx, t, c, guest.ExecSpec{Argv: []string{"true"}})
	gone := false
	for range 100 {
		if _, err := c.Desktop.Screen(ctx); errors.Is(err, &guest.Error{Code: guest.CodeNoDisplay}) {
			gone = true
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("the display was seen to be gone: %v", gone)
	for range 900 {
		if _, err = c.Desktop.Ready(ctx); err == nil {
			t.Log("and it came back")
			return
		}
		<-time.After(200 * time.Millisecond)
	}
	t.Errorf("the display did not come back: %v", err)
}
