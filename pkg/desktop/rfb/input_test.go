package rfb_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
)

var updateGolden = flag.Bool("update", false, "write golden files anew")

var (
	keyA     = desktop.Key{Sym: 'a', Code: 0x1e}
	keyShift = desktop.Key{Sym: 0xffe1, Code: 0x2a}
	keyLeft  = desktop.Key{Sym: 0xff51, Code: 0xcb}
)

// What a client says in a session, one message a line in hexadecimal, are a golden file.
func TestInputTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		for _, do := range []func() error{
			func() error { return c.Pointer(t.Context(), 0, 0, 0) },
			func() error { return c.Pointer(t.Context(), 31, 7, desktop.ButtonLeft) },
			func() error { return c.Pointer(t.Context(), 30, 6, desktop.ButtonLeft|desktop.ButtonRight) },
			func() error { return c.Key(t.Context(), keyShift, true) },
			func() error { return c.Key(t.Context(), keyA, true) },
			func() error { return c.Key(t.Context(), keyLeft, true) },
			func() error { return c.Key(t.Context(), keyLeft, false) },
			func() error { return c.Release(t.Context()) },
			func() error { return c.Release(t.Context()) }, // nothing is held: no message
			func() error { return c.Pointer(t.Context(), 1, 1, desktop.WheelDown) },
			func() error { return c.Pointer(t.Context(), 1, 1, 0) },
		} {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		got := strings.Join(d.greeted, "\n") + "\n" + d.input() + "\n"
		path := filepath.Join("testdata", "session.golden")
		if *updateGolden {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Error(diff)
		}
	})
}

// What QEMU and an X server make of the pointer messages, both rounding down,
// is the pixel that was meant; measured on Debian 12's X server with QEMU 7.2.
func TestPointerArrivesExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(1366, 10)
		c := start(t, d, rfb.Config{})
		for _, x := range []int{0, 1, 2, 682, 683, 684, 1364, 1365} {
			if err := c.Pointer(t.Context(), x, 0, 0); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var sent, y int
			if _, err := fmt.Sscanf(d.input(), "0500%4x%4x", &sent, &y); err != nil {
				t.Fatal(err)
			}
			if got := sent * 32767 / 1366 * 1366 / 32768; got != x || sent*32767/1366 == 0 || y != 1 {
				t.Errorf("%d is sent as %d and arrives at %d", x, sent, got)
			}
		}
	})
}

func TestInputRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		tests := []struct {
			name string
			do   func() error
			want error
		}{
			{"left of the screen", func() error { return c.Pointer(t.Context(), -1, 0, 0) }, desktop.ErrOutside},
			{"right of the screen", func() error { return c.Pointer(t.Context(), 32, 0, 0) }, desktop.ErrOutside},
			{"below the screen", func() error { return c.Pointer(t.Context(), 0, 8, 0) }, desktop.ErrOutside},
			{"horizontal wheel", func() error { return c.Pointer(t.Context(), 0, 0, desktop.WheelLeft) }, desktop.ErrUnsupported},
			{"back button", func() error { return c.Pointer(t.Context(), 0, 0, desktop.ButtonBack) }, desktop.ErrUnsupported},
			{"key without a place", func() error { return c.Key(t.Context(), desktop.Key{Sym: 0x1000434}, true) }, desktop.ErrUnsupported},
		}
		for _, tt := range tests {
			if err := tt.do(); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		synctest.Wait()
		if sent := d.input(); sent != "" {
			t.Errorf("refused input was sent: %s", sent)
		}
	})
}

// While something is held the connection stays, and input makes the next
// frame a new one.
func TestHeldKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		f := frame(t, c)
		<-time.After(time.Millisecond)
		if err := c.Key(t.Context(), keyA, true); err != nil {
			t.Fatal(err)
		}
		if g := frame(t, c); !g.At.After(f.At) {
			t.Error("the frame after an input is from before it")
		}
		<-time.After(time.Minute)
		if err := c.Key(t.Context(), keyA, false); err != nil {
			t.Fatal(err)
		}
		if dials, _ := d.count(); dials != 1 {
			t.Errorf("%d dials, want 1", dials)
		}
		<-time.After(time.Minute)
		frame(t, c)
		if dials, _ := d.count(); dials != 2 {
			t.Errorf("%d dials, want 2", dials)
		}
	})
}

// A button that was held when the connection broke is let go over the next.
func TestStuckButtonIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		if err := c.Pointer(t.Context(), 3, 4, desktop.ButtonLeft); err != nil {
			t.Fatal(err)
		}
		if err := c.Key(t.Context(), keyA, true); err != nil {
			t.Fatal(err)
		}
		d.cut()
		<-time.After(time.Second)
		d.input()
		if err := c.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff("050100040005\n050000040005", d.input()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCursorFollowsThePointer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		frame(t, c)
		d.mu.Lock()
		conn := d.conns[0]
		d.mu.Unlock()
		if _, err := conn.Write(update(rect(0, 0, 1, 1, -239, red, []byte{0x80}))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if f := frame(t, c); f.Cursor.Image != nil {
			t.Error("a cursor is drawn although nobody knows where")
		}
		if err := c.Pointer(t.Context(), 5, 6, 0); err != nil {
			t.Fatal(err)
		}
		f := frame(t, c)
		if f.Cursor.Image == nil || f.Cursor.Pos.X != 5 || f.Cursor.Pos.Y != 6 || f.Seq != 1 {
			t.Errorf("cursor %+v, seq %d", f.Cursor, f.Seq)
		}
	})
}
