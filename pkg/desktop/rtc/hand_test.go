package rtc_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pion/webrtc/v4"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

type message = webrtc.DataChannelMessage

var refusedAt = image.Pt(13, 13)

// recorder notes what it is told to play; keys are refused.
type recorder struct{ calls chan string }

type heldError struct{}

func (heldError) Error() string { return "somebody else has it" }
func (heldError) Code() string  { return "control_held" }

func (r *recorder) Pointer(_ context.Context, _ string, at image.Point, held desktop.Button) error {
	r.calls <- fmt.Sprint("pointer ", at, " ", held)
	if at == refusedAt {
		return heldError{}
	}
	return nil
}

func (r *recorder) Key(_ context.Context, _ string, k desktop.Key, down bool) error {
	r.calls <- fmt.Sprint("key ", k, " ", down)
	return heldError{}
}

func (r *recorder) Scroll(_ context.Context, _ string, at, by image.Point) error {
	r.calls <- fmt.Sprint("scroll ", at, " ", by)
	return nil
}

func (r *recorder) Text(_ context.Context, _, text string) error {
	r.calls <- "text " + text
	return nil
}

func (r *recorder) Release(context.Context, string) error {
	r.calls <- "release"
	return nil
}

func (r *recorder) Stay(context.Context, string) error {
	r.calls <- "stay"
	return nil
}

func (r *recorder) Paste(_ context.Context, _, text string) error {
	r.calls <- "paste " + text
	return nil
}

func (r *recorder) Copies(_ context.Context, _ string, tell func(string)) {
	tell("copied")
	tell(strings.Repeat("x", 60_001)) // too long for a message
}

// TestHand: a late move is dropped, everything else is played in order, and at the
// end everything is let go.
func TestHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{calls: make(chan string, 32)}
		keys := 0
		answers := make(chan string, 8)
		h := rtc.NewHand(r, "v", func() { keys++ }, func(b []byte) { answers <- string(b) })
		for _, m := range []struct {
			raw     []byte
			ordered bool
		}{
			{[]byte{1, 0, 0, 0, 5, 0, 1, 0, 1}, false},
			{[]byte{1, 0, 0, 0, 4, 0, 2, 0, 2}, false}, // late
			{[]byte{2, 0, 0, 0, 3, 0, 3, 0, 3, 0, 4}, true},
			{[]byte{1, 0, 0, 0, 5, 0, 2, 0, 2}, false}, // twice
			{[]byte{4, 0, 0, 0, 6, 0, 3, 0, 3, 0xff, 0x88, 0, 120}, true},
			{[]byte("\x05\x00\x00\x00\x07Grüße"), true},
			{[]byte{7, 0, 0, 0, 8}, true},
			{[]byte{8, 0, 0, 0, 8}, true},
			{[]byte("\x09\x00\x00\x00\x08clip"), true},
			{[]byte{6, 0, 0, 0, 9}, true},
			{[]byte{1, 0, 0, 0, 10, 0, 7, 0, 7}, false}, // the button is up by now
			{[]byte{2, 0, 0, 0, 11, 0, 13, 0, 13, 0, 1}, true},
			{[]byte{1, 0, 0, 0, 12, 0, 8, 0, 8}, false},            // was never pressed
			{[]byte{1, 0xff, 0xff, 0xff, 0xff, 0, 9, 0, 9}, false}, // from before
		} {
			if err := h.Take(t.Context(), m.raw, m.ordered); err != nil {
				t.Error(err)
			}
		}
		if err := h.Take(t.Context(), []byte{6, 0, 0, 0, 9}, false); !errors.Is(err, rtc.ErrMessage) {
			t.Errorf("a release that may be lost: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.Run(ctx)
		}()
		synctest.Wait()
		cancel()
		<-done
		close(r.calls)
		var got []string
		for c := range r.calls {
			got = append(got, c)
		}
		want := "[pointer (1,1) 0 pointer (3,3) 4 scroll (3,3) (-120,120) text Grüße stay paste clip release pointer (7,7) 0 pointer (13,13) 1 pointer (8,8) 0 release]"
		if fmt.Sprint(got) != want || keys != 1 {
			t.Errorf("played %v, %d keys; want %s", got, keys, want)
		}
		close(answers)
		var told []string
		for a := range answers {
			told = append(told, a)
		}
		if len(told) != 2 || !slices.Contains(told, "\x13copied") {
			t.Errorf("told %q", told)
		}
	})
}

// TestLook: without control nothing is played, and the viewer is told.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []byte
		h := rtc.NewHand(nil, "v", func() {}, func(b []byte) { told = b })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.Run(ctx)
		}()
		if err := h.Take(t.Context(), []byte{3, 0, 0, 0, 4, 0, 0, 0, 'a', 0, 0, 0, 30, 1}, true); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		<-done
		if want := "\x12\x00\x00\x00\x04forbidden\x00this viewer may only look"; string(told) != want {
			t.Errorf("told %q", told)
		}
	})
}

// FuzzParse: whatever comes is a message of a known kind, or none.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "\x01\x00\x00\x00\x01\x00\x02\x00\x03", "\x05\x00\x00\x00\x01\xff", "\x07\x00\x00\x00\x01", "\x03\x00\x00\x00\x01aaaabbbb\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := rtc.Parse(b)
		if err != nil {
			if !errors.Is(err, rtc.ErrMessage) {
				t.Errorf("%v", err)
			}
			return
		}
		if m.Kind < rtc.KindMove || m.Kind > rtc.KindClip || m.At.X < 0 || m.At.Y > 65535 || len(b) > rtc.MaxMessage {
			t.Errorf("%+v", m)
		}
	})
}
