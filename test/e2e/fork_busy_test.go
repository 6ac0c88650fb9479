//go:build integration

package e2e_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestForkWhileTyping forks while a batch of input plays: in the parent all of it
// arrives, in the child its beginning, and then what the child is told.
func TestForkWhileTyping(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	file := d.folder(t) + "/typed"
	d.launch(t, "xterm", "-u8", "-T", "typing", "-e", "sh", "-c", "stty -icanon -echo; exec cat > "+file)
	d.focus(t, d.window(t, "typing", func(w api.Window) bool { return w.Title == "typing" }))
	text := strings.Repeat("The Quick Brown FOX JUMPS over the lazy dog; ", 6)
	played := make(chan error, 1)
	go func() {
		reply, err := d.Input().Do(t.Context(), api.InputBatch{Actions: []api.Action{
			{Kind: "text", Text: text, PerSecond: 12},
		}})
		if err == nil && reply.Error != nil {
			err = reply.Error
		}
		played <- err
	}()
	d.until(t, time.Minute, "some of the text", func(ctx context.Context) error {
		b, err := d.Files().Read(ctx, file)
		if err == nil && len(b) < 20 {
			err = fmt.Errorf("only %q", b)
		}
		return err
	})
	kid := d.fork(t, api.Fork{})
	if err := <-played; err != nil {
		t.Errorf("the batch: %v", err)
	}
	d.holdsText(t, "parent", file, func(got string) bool { return got == text })
	head := kid.get(t, file)
	if len(head) < 20 || len(head) >= len(text) || !strings.HasPrefix(text, head) {
		t.Errorf("the child has %d bytes, %q", len(head), head)
	}
	if err := kid.Type(t.Context(), "and lower case\n"); err != nil {
		t.Fatal(err)
	}
	// What was on its way into the child when it was forked comes first.
	kid.holdsText(t, "child", file, func(got string) bool {
		begin, ok := strings.CutSuffix(got, "and lower case\n")
		return ok && len(begin) >= len(head) && strings.HasPrefix(text, begin)
	})
}

// TestForkWhileAKeyIsHeld: what the parent holds is not held in the child.
func TestForkWhileAKeyIsHeld(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	file := d.folder(t) + "/typed"
	d.launch(t, "xterm", "-u8", "-T", "typing", "-e", "sh", "-c", "stty -icanon -echo; exec cat > "+file)
	d.focus(t, d.window(t, "typing", func(w api.Window) bool { return w.Title == "typing" }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan error, 1)
	go func() {
		var err error
		for err == nil { // a hold ends after a minute, and a slow host needs longer
			err = d.Input().Hold(ctx, "shift", time.Minute, 0)
		}
		held <- err
	}()
	d.until(t, 3*time.Minute, "shift", func(ctx context.Context) error {
		select {
		case err := <-held:
			held <- err
			t.Fatalf("shift is not held any more: %v", err)
		default:
		}
		res, err := d.Execs().Run(ctx, api.Exec{Shell: keymap, Env: map[string]string{"DISPLAY": ":0"}})
		if err == nil && string(res.Stdout) != "held\n" {
			err = fmt.Errorf("keyboard: %s%s", res.Stdout, res.Stderr)
		}
		return err
	})
	kid := d.fork(t, api.Fork{})
	if err := kid.Type(t.Context(), "lower\n"); err != nil {
		t.Fatal(err)
	}
	kid.holdsText(t, "child", file, func(got string) bool { return got == "lower\n" })
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Error("what was held:", err)
	}
	if err := d.Input().Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Type(t.Context(), "lower too\n"); err != nil {
		t.Fatal(err)
	}
	d.holdsText(t, "parent", file, func(got string) bool { return got == "lower too\n" })
}

// keymap says whether the X server knows of a shift key that is down.
const keymap = `exec python3 -c '
import ctypes
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
d = x.XOpenDisplay(None)
m = ctypes.create_string_buffer(32)
x.XQueryKeymap(ctypes.c_void_p(d), m)
print("held" if any(m.raw[k // 8] >> (k % 8) & 1 for k in (50, 62)) else "free")'`

// holdsText waits for a file.
func (d desk) holdsText(t *testing.T, who, file string, right func(string) bool) {
	t.Helper()
	d.until(t, time.Minute, who+"'s text", func(ctx context.Context) error {
		b, err := d.Files().Read(ctx, file)
		if err == nil && !right(string(b)) {
			err = fmt.Errorf("it is %q", b)
		}
		return err
	})
}

// TestForkWhileUploading forks in the middle of an upload: the parent's ends
// well, and the child has nothing that looks like the whole file.
func TestForkWhileUploading(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn)
	const size = 48 << 20
	content := io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
	sum := sha256.New()
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := d.Files().Write(t.Context(), "/workspace/up/load", r, client.WriteOptions{Parents: true, Size: size})
		_ = r.CloseWithError(errors.New("the upload has ended"))
		sent <- err
	}()
	to := io.MultiWriter(w, sum)
	if _, err := io.CopyN(to, content, size/2); err != nil {
		t.Fatal(err)
	}
	d.until(t, time.Minute, "half of it", func(ctx context.Context) error {
		res, err := d.Execs().Run(ctx, api.Exec{Shell: "du -sm /workspace/up | cut -f1", User: "root"})
		if n := strings.TrimSpace(string(res.Stdout)); err == nil && len(n) < 2 {
			err = fmt.Errorf("%s MiB", n)
		}
		return err
	})
	kid := d.fork(t, api.Fork{})
	if _, err := io.Copy(to, content); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), <-sent); err != nil {
		t.Fatalf("the parent's upload: %v", err)
	}
	want := fmt.Sprintf("%x  /workspace/up/load\n", sum.Sum(nil))
	if got := d.sh(t, "sha256sum /workspace/up/load"); got != want {
		t.Errorf("the parent has %s, want %s", got, want)
	}
	if _, err := kid.Files().Stat(t.Context(), "/workspace/up/load"); !is(err, api.CodeNotFound) {
		t.Errorf("the child has the file: %v", err)
	}
	// Nobody will send the rest: what came of it goes.
	kid.until(t, time.Minute, "no half file", func(ctx context.Context) error {
		res, err := kid.Execs().Run(ctx, api.Exec{Shell: "ls -A /workspace/up", User: "root"})
		if err == nil && len(res.Stdout) > 0 {
			err = fmt.Errorf("there is %s", res.Stdout)
		}
		return err
	})
	kid.put(t, "/workspace/up/load", "another")
	if got := kid.get(t, "/workspace/up/load"); got != "another" {
		t.Errorf("the child reads %q", got)
	}
}
