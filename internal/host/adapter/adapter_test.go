package adapter_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// stack is the real parts over a machine with a synthetic screen (RFB) and a
// guestd in process.
type stack struct {
	host     *host.Host
	provider *vmtest.Provider
	guest    *guesttest.Guest
	desktop  api.Desktop

	mu  sync.Mutex
	img image.Image // guarded by mu; what the screen shows
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{guest: guesttest.Start(t, guesttest.Config{})}
	s.guest.Desktop.Override(hosttest.DrawnWindows)
	s.provider = vmtest.New(vmtest.Config{
		Guest: func(ctx context.Context, _ *vmtest.Machine, _ int) (net.Conn, error) { return s.guest.Dial(ctx) },
	})
	fences := sessiontest.NewMemory()
	h, err := host.New(t.Context(), host.Config{
		DataDir: t.TempDir(), Provider: s.provider, Images: &hosttest.Images{},
		Fences: workspaces.Fences{Fences: fences.Stores().Fences, Publications: fences.Publications},
		Open: func(cfg reach.Config) (*live.Desktop, error) {
			cfg.Tokens = []string{guesttest.Token}
			return adapter.Opener(cfg)
		},
		Usage: func() (admission.Usage, error) {
			return admission.Usage{MemoryAvailable: 64 << 30, DiskAvailable: 640 << 30}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.host = h
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	<-h.Ready()
	s.desktop, err = h.Create(t.Context(), "p", api.CreateDesktop{Image: "test", Name: "one", Cold: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Wait(t.Context(), "p", "one", api.StageMachine); err != nil { // the screen is the machine's
		t.Fatal(err)
	}
	s.refresh(t)
	return s
}

// paint draws something that is not blank.
func (s *stack) paint(c color.Color) {
	img := image.NewRGBA(image.Rect(0, 0, 1280, 800))
	for y := 0; y < 800; y += 40 {
		for x := 0; x < 1280; x += 40 {
			fill := c
			if (x+y)/40%2 == 0 {
				fill = color.RGBA{R: uint8(x / 8), G: uint8(y / 4), A: 255}
			}
			draw.Draw(img, image.Rect(x, y, x+40, y+40), image.NewUniform(fill), image.Point{}, draw.Src)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.img = img
	s.screen().Draw(img)
}

func (s *stack) screen() *vmtest.Screen {
	return s.provider.Machine(vm.Incarnation(s.desktop.Incarnation)).Screen()
}

// refresh draws the same again and again: the synthetic screen answers a request
// for changes only when it was drawn on, where QEMU answers in any case.
func (s *stack) refresh(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.mu.Lock()
				if s.img != nil {
					s.screen().Draw(s.img)
				}
				s.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func TestRealParts(t *testing.T) {
	hosttest.NoLeaks(t)
	s := newStack(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.host.Wait(ctx, "p", "one", api.StageSession); err != nil {
		t.Fatal(err)
	}
	v, err := s.host.Desktop(ctx, "p", "one")
	if err != nil || v.State != api.StateStarting {
		t.Fatalf("a blank desktop is %s, %v", v.State, err)
	}
	s.paint(color.White)
	if _, err := s.host.Wait(ctx, "p", "one", api.StageDrawn); err != nil {
		t.Fatal(err)
	}
	l, err := s.host.Guest(ctx, "p", "one")
	if err != nil {
		t.Fatal(err)
	}
	pic, err := l.Screen.Shot(ctx, live.Shot{MaxWidth: 640})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(pic.Data))
	if err != nil || img.Bounds().Dx() != 640 || pic.Scale != 0.5 {
		t.Fatalf("picture %v, scale %v, %v", img.Bounds(), pic.Scale, err)
	}
	again, err := l.Screen.Shot(ctx, live.Shot{MaxWidth: 640, Unless: pic.ETag})
	if err != nil || !again.Unchanged {
		t.Errorf("an unchanged screen is encoded again: %v", err)
	}
	s.paint(color.Black)
	// That the picture after an exec holds what the exec drew is proven on a real
	// hypervisor; the synthetic screen does not confirm its pixels.
	seq, err := l.Screen.Wait(ctx, live.Waiting{For: "change", After: pic.Seq})
	if err != nil || seq <= pic.Seq {
		t.Fatalf("change is frame %d after %d, %v", seq, pic.Seq, err)
	}
	after, err := l.Screen.Shot(ctx, live.Shot{MaxWidth: 640, Unless: pic.ETag})
	if err != nil || after.Unchanged || after.Seq <= pic.Seq {
		t.Errorf("a changed screen is unchanged %t, frame %d after %d, %v", after.Unchanged, after.Seq, pic.Seq, err)
	}
}

// TestLongTextHasTime: a slow program takes a long text for longer than guests give
// what states no limit.
func TestLongTextHasTime(t *testing.T) {
	s := newStack(t)
	ctx := t.Context()
	s.paint(color.White)
	if _, err := s.host.Wait(ctx, "p", "one", api.StageDrawn); err != nil {
		t.Fatal(err)
	}
	ctx, l, leave, err := s.host.Controls.Use(ctx, "p", "one", control.Call{})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	long := api.Action{Kind: "text", Text: strings.Repeat("line\n", 2000)}
	reply, err := l.Input.Do(ctx, api.InputBatch{Actions: []api.Action{long}})
	if err != nil || reply.Error != nil {
		t.Fatal(err, reply.Error)
	}
	if got := s.guest.Desktop.Patience(); got < 5*time.Minute {
		t.Errorf("10,000 characters have %s", got)
	}
}

func TestInput(t *testing.T) {
	s := newStack(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.paint(color.White)
	if _, err := s.host.Wait(ctx, "p", "one", api.StageDrawn); err != nil {
		t.Fatal(err)
	}
	ctx, l, leave, err := s.host.Controls.Use(ctx, "p", "one", control.Call{})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	x, y := 100, 50
	reply, err := l.Input.Do(ctx, api.InputBatch{
		ImageWidth: 640, Screenshot: true,
		Actions: []api.Action{
			{Kind: "click", X: &x, Y: &y},
			{Kind: "key", Keys: "ctrl+s", Repeat: 2},
			{Kind: "text", Text: "hi"},
			{Kind: "wait", For: "still"},
			{Kind: "key", Keys: "nosuchkey"},
			{Kind: "move", X: &x, Y: &y},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Results) != 4 || reply.Error == nil || reply.Error.Code != api.CodeInvalid || !strings.Contains(reply.Error.Stage, "actions[4]") {
		t.Errorf("reply is %+v, error %+v", reply.Results, reply.Error)
	}
	if reply.Width != 1280 || reply.Screenshot == nil || reply.Screenshot.Width != 640 {
		t.Errorf("reply is of %d, picture %v", reply.Width, reply.Screenshot != nil)
	}
	events := s.screen().Events()
	var pressed, clicked bool
	down := map[uint32]bool{}
	for _, e := range events {
		// Image pixel 100 of 640 shows screen pixels 200 and 201 of 1280.
		clicked = clicked || (e.Buttons == 1 && e.X == 201 && e.Y == 101)
		if e.Kind == "key" {
			pressed = true
			down[e.Keysym] = e.Down
		}
	}
	if !clicked || !pressed {
		t.Errorf("events are %s", fmt.Sprint(events))
	}
	for key, held := range down {
		if held {
			t.Errorf("key %#x stays pressed", key)
		}
	}
}

func TestClipboardTypes(t *testing.T) {
	s := newStack(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.host.Wait(ctx, "p", "one", api.StageSession); err != nil {
		t.Fatal(err)
	}
	l, err := s.host.Guest(ctx, "p", "one")
	if err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString("iVBORw0KGgo=")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Windows.SetClipboard(ctx, clip("image/png", data)); err != nil {
		t.Fatal(err)
	}
	got, err := l.Windows.Clipboard(ctx, "image/png")
	if err != nil || !slices.Equal(got.Data, data) {
		t.Errorf("clipboard is %q, %v", got.Data, err)
	}
}
