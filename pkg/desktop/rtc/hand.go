package rtc

import (
	"context"
	"errors"
	"image"
	"sync"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Control takes what viewers do. Calls of one viewer come one at a time, in order.
// An error tells the viewer that it was not played; one with a method Code() string
// tells it why in a word.
type Control interface { //nolint:interfacebloat // one for each kind of message
	// Pointer moves to a point of the screen with exactly these buttons held.
	Pointer(ctx context.Context, viewer string, at image.Point, held desktop.Button) error
	Key(ctx context.Context, viewer string, k desktop.Key, down bool) error
	// Scroll turns the wheel at a point, in 1/120 of a notch; right and down are
	// positive.
	Scroll(ctx context.Context, viewer string, at, by image.Point) error
	Text(ctx context.Context, viewer, text string) error
	// Release lets go of all that the viewer holds: it asked to, or has gone.
	Release(ctx context.Context, viewer string) error
	// Stay says that a viewer which has control is there.
	Stay(ctx context.Context, viewer string) error
	// Paste puts a text into the desktop's clipboard, and Copies tells of those that
	// come into it, until ctx ends.
	Paste(ctx context.Context, viewer, text string) error
	Copies(ctx context.Context, viewer string, tell func(text string))
}

// inboxSize bounds the messages that wait to be played.
const inboxSize = 256

// Hand plays the messages of one viewer.
type Hand struct {
	control Control // nil: it may only look
	viewer  string
	inbox   chan Message
	// keyframe is called when the viewer wants one.
	keyframe func()
	// answer sends a message to the viewer.
	answer func([]byte)
}

// NewHand makes the hand of a viewer; a nil control plays nothing.
func NewHand(c Control, viewer string, keyframe func(), answer func([]byte)) *Hand {
	return &Hand{control: c, viewer: viewer, inbox: make(chan Message, inboxSize), keyframe: keyframe, answer: answer}
}

// Take hands over one message as it came; ordered says that it came by a way that
// keeps order and loses nothing. It waits while too much is to be played, but for
// moves, which are dropped then.
func (h *Hand) Take(ctx context.Context, raw []byte, ordered bool) error {
	m, err := Parse(raw)
	if err != nil {
		return err
	}
	if m.Kind == KindKeyframe {
		h.keyframe()
		return nil
	}
	if m.Kind == KindMove {
		select {
		case h.inbox <- m:
		default:
		}
		return nil
	}
	if !ordered {
		return errors.Join(ErrMessage, errors.New("only moves may come by a way that loses messages"))
	}
	select {
	case h.inbox <- m:
	case <-ctx.Done():
	}
	return nil
}

// Run plays what comes until ctx ends, and lets go of everything then. Meanwhile it
// tells the viewer what comes into the clipboard.
func (h *Hand) Run(ctx context.Context) {
	var copies sync.WaitGroup
	defer copies.Wait()
	if h.control != nil {
		copies.Go(func() {
			h.control.Copies(ctx, h.viewer, func(text string) {
				if b := clip(text); b != nil {
					h.answer(b)
				}
			})
		})
	}
	var last uint32 // the newest that was played
	var held desktop.Button
	for begun := false; ; {
		select {
		case <-ctx.Done():
			if h.control != nil {
				_ = h.control.Release(context.WithoutCancel(ctx), h.viewer) // nobody is left to be told
			}
			return
		case m := <-h.inbox:
			newer := !begun || int32(m.Seq-last) > 0
			if m.Kind == KindMove && !newer {
				continue
			}
			if newer {
				begun, last = true, m.Seq
			}
			held = h.turn(ctx, m, held)
		}
	}
}

// turn plays one message. held are the buttons that are down, before and afterwards.
func (h *Hand) turn(ctx context.Context, m Message, held desktop.Button) desktop.Button {
	if m.Kind == KindButtons {
		held = m.Held
	}
	err := h.play(ctx, m, held)
	if err != nil && m.Kind != KindMove && ctx.Err() == nil {
		h.answer(refused(m.Seq, codeOf(err), err.Error()))
	}
	if err != nil || m.Kind == KindRelease {
		return 0 // what is down no more, or never went down, no later move presses
	}
	return held
}

var errLook = errors.New("this viewer may only look")

func (h *Hand) play(ctx context.Context, m Message, held desktop.Button) error {
	if h.control == nil {
		return errLook
	}
	switch m.Kind {
	case KindMove, KindButtons:
		return h.control.Pointer(ctx, h.viewer, m.At, held)
	case KindKey:
		return h.control.Key(ctx, h.viewer, m.Key, m.Down)
	case KindScroll:
		return h.control.Scroll(ctx, h.viewer, m.At, m.Scroll)
	case KindText:
		return h.control.Text(ctx, h.viewer, m.Text)
	case KindRelease:
		return h.control.Release(ctx, h.viewer)
	case KindStay:
		return h.control.Stay(ctx, h.viewer)
	case KindClip:
		return h.control.Paste(ctx, h.viewer, m.Text)
	case KindKeyframe:
	}
	return nil
}

// codeOf is the word of an error.
func codeOf(err error) string {
	if errors.Is(err, errLook) {
		return "forbidden"
	}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return "failed"
}
