package viewer

import (
	"context"
	"errors"
	"image"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/guest"
)

// hands is what a viewer says that he holds down.
type hands struct {
	buttons desktop.Button
	keys    map[desktop.Key]bool
	turned  image.Point // of the wheel, since its last notch, in 1/120 of one
}

// errLook says that an event was dropped since its viewer's role is to look.
func errLook() error { return api.Errorf(api.CodeForbidden, "this viewer may only look") }

var _ desktop.Input = (*Visit)(nil)

// Pointer implements desktop.Input. Who presses a button takes control, as far as
// the role and the policy allow; who merely moves does not.
func (v *Visit) Pointer(ctx context.Context, x, y int, buttons desktop.Button) error {
	v.mu.Lock()
	press := buttons&^v.hands.buttons != 0
	v.hands.buttons = buttons
	v.mu.Unlock()
	return v.act(ctx, press, func(ctx context.Context) error { return v.w.Live.Display.Input.Pointer(ctx, x, y, buttons) })
}

// Key implements desktop.Input. Who presses a key takes control.
func (v *Visit) Key(ctx context.Context, k desktop.Key, down bool) error {
	v.mu.Lock()
	press := down && !v.hands.keys[k]
	if v.hands.keys == nil {
		v.hands.keys = map[desktop.Key]bool{}
	}
	if down {
		v.hands.keys[k] = true
	} else {
		delete(v.hands.keys, k)
	}
	v.mu.Unlock()
	return v.act(ctx, press, func(ctx context.Context) error { return v.w.Live.Display.Input.Key(ctx, k, down) })
}

// Scrolling: a notch of the wheel is so much; more of them at once are dropped.
const (
	notch     = 120
	mostTurns = 20
)

// Scroll turns the wheel at a point by 1/120 of a notch, right and down positive.
// What is less than a notch waits for the rest. It takes control.
func (v *Visit) Scroll(ctx context.Context, at, by image.Point) error {
	v.mu.Lock()
	held, sum := v.hands.buttons, v.hands.turned.Add(by)
	turns := image.Pt(sum.X/notch, sum.Y/notch)
	v.hands.turned = sum.Sub(turns.Mul(notch))
	v.mu.Unlock()
	return v.act(ctx, true, func(ctx context.Context) error {
		in := v.w.Live.Display.Input
		turn := func(n int, back, forth desktop.Button) error {
			wheel := forth
			if n < 0 {
				n, wheel = -n, back
			}
			for range min(n, mostTurns) {
				if err := in.Pointer(ctx, at.X, at.Y, held|wheel); err != nil {
					return err
				}
				if err := in.Pointer(ctx, at.X, at.Y, held); err != nil {
					return err
				}
			}
			return nil
		}
		return errors.Join(turn(turns.Y, desktop.WheelUp, desktop.WheelDown), turn(turns.X, desktop.WheelLeft, desktop.WheelRight))
	})
}

// Text types a text that no key has, as an agent's text is typed. It takes control.
func (v *Visit) Text(ctx context.Context, text string) error {
	return v.act(ctx, true, func(ctx context.Context) error {
		r, err := v.w.Live.Input.Do(ctx, api.InputBatch{Actions: []api.Action{{Kind: "text", Text: text}}})
		if err == nil && r.Error != nil {
			err = r.Error
		}
		return err
	})
}

// Release implements desktop.Input: the viewer's window has lost the focus. Control
// stays.
func (v *Visit) Release(ctx context.Context) error {
	v.mu.Lock()
	v.hands = hands{}
	v.mu.Unlock()
	return v.act(ctx, false, v.w.Live.Display.Input.Release)
}

// Renew says that the viewer is there.
func (v *Visit) Renew(ctx context.Context) error {
	_, err := v.desk.cfg.Control.Change(ctx, v.w.Desktop.ID, v.who.Who, api.ChangeControl{Action: api.ControlRenew}, 0)
	return err
}

// Do makes a call under the viewer's control; without it the call is not made.
func (v *Visit) Do(ctx context.Context, do func(context.Context) error) error {
	return v.act(ctx, false, do)
}

// act does something under the lease; take says that it is worth to take that. Its
// errors say why nothing was done: forbidden, control_held, precondition.
func (v *Visit) act(ctx context.Context, take bool, do func(context.Context) error) error {
	if !v.Controls() {
		return errLook()
	}
	id, desk := v.w.Desktop.ID, v.desk.cfg.Control
	got, err := desk.Status(ctx, id, v.who.Who)
	if err != nil {
		return err
	}
	if now, _, ok := v.desk.cfg.Look(id); !ok || now.State == api.StatePaused || now.Incarnation != v.w.Desktop.Incarnation {
		return api.Errorf(api.CodePrecondition, "the desktop is not running")
	}
	if !got.Mine && take {
		got, err = desk.Change(ctx, id, v.who.Who, api.ChangeControl{Action: api.ControlTake}, 0)
	}
	if err == nil && !got.Mine {
		err = api.Errorf(api.CodeControlHeld, "this viewer does not have control")
	}
	if err != nil {
		return err
	}
	ctx, leave, err := desk.Enter(ctx, id, v.who.Who, got.Epoch, 0)
	if err != nil {
		return err
	}
	defer leave()
	return do(ctx)
}

// maxClip bounds a text that goes from one clipboard to another, in bytes.
const maxClip = 1 << 20

// Paste puts a text into the desktop's clipboard, as far as the policy lets texts
// in and the viewer has control.
func (v *Visit) Paste(ctx context.Context, text string) error {
	if p := v.clipboard(); p != "in" && p != "both" {
		return errClip()
	}
	if len(text) > maxClip {
		return api.Errorf(api.CodeTooLarge, "a text for the clipboard has at most %d bytes", maxClip)
	}
	return v.act(ctx, false, func(ctx context.Context) error {
		return v.w.Live.Windows.SetClipboard(ctx, guest.Clipboard{Type: "text/plain", Data: []byte(text)})
	})
}

// Copy reads the desktop's clipboard, as far as the policy lets texts out and the
// viewer has control.
func (v *Visit) Copy(ctx context.Context) (text string, err error) {
	if p := v.clipboard(); p != "out" && p != "both" {
		return "", errClip()
	}
	err = v.act(ctx, false, func(ctx context.Context) error {
		c, err := v.w.Live.Windows.Clipboard(ctx, "text/plain")
		text = string(c.Data[:min(len(c.Data), maxClip)])
		return err
	})
	return text, err
}

func errClip() error {
	return api.Errorf(api.CodeForbidden, "the desktop's control policy keeps the clipboards apart")
}

// clipPause is how often the desktop's clipboard is looked at for a viewer who has
// control and may have it.
const clipPause = time.Second

// Copies tells of texts that come into the desktop's clipboard, until ctx ends.
func (v *Visit) Copies(ctx context.Context, tell func(text string)) {
	tick := time.NewTicker(clipPause)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if text, err := v.Copy(ctx); err == nil && text != "" && text != last {
			last = text
			tell(text)
		}
	}
}

func (v *Visit) clipboard() string {
	d, _, _ := v.desk.cfg.Look(v.w.Desktop.ID)
	return d.ControlPolicy.Clipboard
}
