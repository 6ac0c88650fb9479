package boot

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Wish is how the guest shall be once it is up.
type Wish struct {
	Generation string
	Env        map[string]string
	Display    api.Display
	Keyboard   string // layout, or layout:variant
	User       string // default user of execs
	Workspace  string // block device; empty: none is mounted
	// WorkspaceMiB is the size of the device.
	WorkspaceMiB int64
	// Token replaces the link's; empty: it stays.
	Token string
	// Present and Shown are the keyboard layout and the display that the guest is
	// known to have; zero: it is not known.
	Present string
	Shown   api.Display
}

// Limits are the stages' deadlines on hardware vCPUs.
type Limits struct {
	Machine, Link, Handshake, Session, Drawn time.Duration

	// Poll is the time between two looks at what does not tell by itself, and
	// Still how long a screen must not change to have come to rest.
	Poll, Still time.Duration
}

// DefaultLimits are ample for a cold boot.
func DefaultLimits() Limits {
	return Limits{
		Machine: 30 * time.Second, Link: 60 * time.Second, Handshake: 15 * time.Second,
		Session: 60 * time.Second, Drawn: 60 * time.Second,
		Poll: 250 * time.Millisecond, Still: 500 * time.Millisecond,
	}
}

// CloneLimits are for a guest that was drawn when it was sealed.
func CloneLimits() Limits {
	return Limits{
		Machine: 10 * time.Second, Link: 8 * time.Second, Handshake: 8 * time.Second,
		Session: 8 * time.Second, Drawn: 8 * time.Second,
		Poll: 10 * time.Millisecond, Still: 500 * time.Millisecond,
	}
}

const entropyLen = 64

// LinkStep waits for guestd.
func LinkStep(d *live.Desktop, l Limits) Step {
	return Step{Stage: api.StageLink, Limit: l.Link, Run: func(ctx context.Context, note func(string)) error {
		note("guestd has not answered")
		hello, err := d.Link.Hello(ctx)
		if err != nil {
			return err
		}
		if hello.Protocol != guest.Protocol {
			return fault.Stage(api.StageLink, api.CodeGuestFailed,
				"guestd %s speaks protocol %d, this host %d: rebuild the image", hello.Version, hello.Protocol, guest.Protocol)
		}
		return nil
	}}
}

// HandshakeStep gives the guest its clock, entropy, workspace and environment,
// and looks at the proof that they are its own.
func HandshakeStep(d *live.Desktop, l Limits, w Wish, proof Proof) Step {
	return Step{Stage: api.StageHandshake, Limit: l.Handshake, Run: func(ctx context.Context, note func(string)) error {
		note("guestd has not taken the handshake")
		entropy := make([]byte, entropyLen)
		_, _ = rand.Read(entropy) // never fails
		var done guest.Handshaken
		err := Poll(ctx, l.Poll, note, func(ctx context.Context) (missing string, err error) {
			done, err = d.Link.Handshake(ctx, guest.Handshake{
				Now: proof.Now().UTC(), Entropy: entropy, Generation: w.Generation, Token: w.Token,
				Workspace: w.Workspace, WorkspaceBytes: w.WorkspaceMiB << 20, Env: w.Env, User: w.User,
			})
			if err != nil && ctx.Err() == nil && fault.From(err).Code == api.CodeGuestUnavail {
				return "the link was lost during the handshake: " + err.Error(), nil // it may be repeated
			}
			if err == nil && proof.Clone && done.ClockError() > clockLimit {
				return clockOff(done), nil // a busy host: it is set and read once more
			}
			return "", err
		})
		if err != nil {
			return err
		}
		return proof.check(done)
	}}
}

// SessionStep waits for the helper in the X session, then sets display size and
// keyboard layout. A guest that is known to have both is not asked: what a clone
// had when it was sealed it has.
func SessionStep(d *live.Desktop, l Limits, w Wish) Step {
	return Step{Stage: api.StageSession, Limit: l.Session, Run: func(ctx context.Context, note func(string)) error {
		if w.Keyboard == w.Present && w.Display == w.Shown {
			return nil
		}
		var screen guest.Screen
		err := Poll(ctx, l.Poll, note, func(ctx context.Context) (string, error) {
			s, err := d.Session.Ready(ctx)
			screen = s
			return transient(ctx, err, "the helper in the X session has not answered")
		})
		if err != nil {
			return err
		}
		if screen.Width != w.Display.Width || screen.Height != w.Display.Height {
			note(fmt.Sprintf("the display is %dx%d", screen.Width, screen.Height))
			if _, err := d.Session.SetScreen(ctx, w.Display.Width, w.Display.Height); err != nil {
				return fmt.Errorf("set display to %dx%d: %w", w.Display.Width, w.Display.Height, err)
			}
		}
		if w.Keyboard == w.Present {
			return nil
		}
		layout, variant, _ := strings.Cut(w.Keyboard, ":")
		note("the keyboard layout is not set")
		if err := d.Session.SetKeyboard(ctx, guest.Keyboard{Layout: layout, Variant: variant}); err != nil {
			return fmt.Errorf("set keyboard to %s: %w", w.Keyboard, err)
		}
		return nil
	}}
}

// DrawnStep waits until a desktop and a panel are on a screen that is neither
// blank nor changing.
func DrawnStep(d *live.Desktop, l Limits) Step {
	return Step{Stage: api.StageDrawn, Limit: l.Drawn, Run: func(ctx context.Context, note func(string)) error {
		err := Poll(ctx, l.Poll, note, func(ctx context.Context) (string, error) {
			windows, err := d.Windows.List(ctx)
			if err != nil {
				return transient(ctx, err, "windows cannot be listed")
			}
			return missingWindow(windows), nil
		})
		if err != nil {
			return err
		}
		note("windows are there, but the screen is blank")
		if _, err := d.Screen.Wait(ctx, live.Waiting{For: "notblank"}); err != nil {
			return err
		}
		note(fmt.Sprintf("the screen has not been still for %s", l.Still))
		_, err = d.Screen.Wait(ctx, live.Waiting{For: "still", Still: l.Still})
		return err
	}}
}

// NotBlankStep is DrawnStep for a clone: it was still when it was sealed. One
// whose screen was plain then may show that.
func NotBlankStep(d *live.Desktop, l Limits, plain bool) Step {
	return Step{Stage: api.StageDrawn, Limit: l.Drawn, Run: func(ctx context.Context, note func(string)) error {
		if plain {
			return nil
		}
		note("the screen is blank")
		_, err := d.Screen.Wait(ctx, live.Waiting{For: "notplain"})
		return err
	}}
}

// transient lets a poll go on after the errors of a guest that is still coming
// up, and says which one it was.
func transient(ctx context.Context, err error, what string) (string, error) {
	if err == nil {
		return "", nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch fault.From(err).Code {
	case api.CodeNoDisplay, api.CodeGuestUnavail, api.CodePrecondition, api.CodeDeadline, api.CodeRefused:
		return what + ": " + err.Error(), nil
	default:
		return "", err
	}
}

func missingWindow(windows []guest.Window) string {
	var desktop, dock bool
	seen := make([]string, 0, len(windows))
	for _, w := range windows {
		desktop = desktop || w.Type == "desktop"
		dock = dock || w.Type == "dock"
		seen = append(seen, w.Type+" "+w.Class)
	}
	if desktop && dock {
		return ""
	}
	if len(seen) == 0 {
		return "no window is there"
	}
	return "no window of the desktop and of a panel among: " + strings.Join(seen, ", ")
}
