package viewer

import (
	"context"
	"errors"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/guest"
)

// hands is what a viewer says that he holds down.
type hands struct {
	buttons desktop.Button
	keys    map[desktop.Key]bool
}

// ErrWatching says that an event was dropped: its viewer may only look, or somebody
// else has control and keeps it.
var ErrWatching = errors.New("the viewer does not have control")

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

// act does something under the lease; take says that it is worth to take that.
func (v *Visit) act(ctx context.Context, take bool, do func(context.Context) error) error {
	if !v.who.Role.Can(ticket.Control) {
		return ErrWatching
	}
	id, desk := v.w.Desktop.ID, v.desk.cfg.Control
	got, err := desk.Status(ctx, id, v.who.Who)
	if err != nil {
		return err
	}
	if now, _, ok := v.desk.cfg.Look(id); !ok || now.State == api.StatePaused || now.Incarnation != v.w.Desktop.Incarnation {
		return ErrWatching
	}
	if !got.Mine && take {
		got, err = desk.Change(ctx, id, v.who.Who, api.ChangeControl{Action: api.ControlTake}, 0)
	}
	if err == nil && !got.Mine {
		return ErrWatching
	}
	if err == nil {
		var leave func()
		if ctx, leave, err = desk.Enter(ctx, id, v.who.Who, got.Epoch, 0); err == nil {
			defer leave()
			return do(ctx)
		}
	}
	if errors.Is(err, &api.Error{Code: api.CodeControlHeld}) {
		return ErrWatching
	}
	return err
}

// maxClip bounds a text that goes from one clipboard to another, in bytes.
const maxClip = 1 << 20

// Paste puts a text into the desktop's clipboard, as far as the policy lets texts
// in and the viewer has control.
func (v *Visit) Paste(ctx context.Context, text string) error {
	if p := v.clipboard(); p != "in" && p != "both" || len(text) > maxClip {
		return ErrWatching
	}
	return v.act(ctx, false, func(ctx context.Context) error {
		return v.w.Live.Windows.SetClipboard(ctx, guest.Clipboard{Type: "text/plain", Data: []byte(text)})
	})
}

// Copy reads the desktop's clipboard, as far as the policy lets texts out and the
// viewer has control.
func (v *Visit) Copy(ctx context.Context) (text string, err error) {
	if p := v.clipboard(); p != "out" && p != "both" {
		return "", ErrWatching
	}
	err = v.act(ctx, false, func(ctx context.Context) error {
		c, err := v.w.Live.Windows.Clipboard(ctx, "text/plain")
		text = string(c.Data[:min(len(c.Data), maxClip)])
		return err
	})
	return text, err
}

func (v *Visit) clipboard() string {
	d, _, _ := v.desk.cfg.Look(v.w.Desktop.ID)
	return d.ControlPolicy.Clipboard
}
