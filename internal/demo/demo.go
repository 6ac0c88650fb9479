// Package demo shows a desktop under control, for people who see one for the
// first time: it opens a terminal by clicking, types a line, and reads the
// result back by exec.
package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Where the demonstration's line leaves its result, in the guest.
const resultPath = "/tmp/demo.txt"

// How long things of the guest may take under the slowest accelerator.
const (
	openWithin   = 45 * time.Second
	typedWithin  = 30 * time.Second
	lookEvery    = 500 * time.Millisecond
	settleWithin = 10 * time.Second
)

// Result is what a demonstration brought.
type Result struct {
	Text    string // read back from the guest
	Opened  bool   // false: a terminal was open from an earlier demonstration
	Picture []byte // PNG of the screen at the end
}

// Run gives the demonstration and tells each step. It may be repeated.
func Run(ctx context.Context, d *client.Desktop, say func(format string, args ...any)) (Result, error) {
	var r Result
	// The result must not be an earlier one's.
	if _, err := d.Exec(ctx, "rm", "-f", resultPath); err != nil {
		return r, fmt.Errorf("remove the last result: %w", err)
	}
	node, err := d.Exec(ctx, "uname", "-n")
	if err != nil {
		return r, fmt.Errorf("ask for the guest's name: %w", err)
	}
	win, opened, err := terminal(ctx, d, say)
	if err != nil {
		return r, err
	}
	r.Opened = opened
	// A click into the terminal gives it the keyboard, as a person would do it.
	if err := d.Click(ctx, win.X+win.Width/2, win.Y+win.Height/2); err != nil {
		return r, fmt.Errorf("click into the terminal: %w", err)
	}
	line := `echo "hello from $(uname -n)" | tee ` + resultPath
	say("typing: %s", line)
	if err := d.Type(ctx, line); err != nil {
		return r, fmt.Errorf("type: %w", err)
	}
	if err := d.Key(ctx, "Return"); err != nil {
		return r, fmt.Errorf("press Return: %w", err)
	}
	want := "hello from " + strings.TrimSpace(string(node.Stdout))
	if r.Text, err = await(ctx, d, want); err != nil {
		return r, err
	}
	say("read back by exec: %s", r.Text)
	settle(ctx, d)
	shot, err := d.Screenshot(ctx)
	if err != nil {
		return r, fmt.Errorf("take a picture: %w", err)
	}
	r.Picture = shot.Data
	return r, nil
}

// terminal finds a terminal's window, or opens one by clicking its launcher.
func terminal(ctx context.Context, d *client.Desktop, say func(string, ...any)) (api.Window, bool, error) {
	list, err := d.Windows().List(ctx)
	if err != nil {
		return api.Window{}, false, fmt.Errorf("list windows: %w", err)
	}
	if w, ok := find(list); ok {
		say("a terminal is open already")
		return w, false, d.Windows().Focus(ctx, w.ID)
	}
	x, y, err := launcher(list)
	if err != nil {
		return api.Window{}, false, err
	}
	say("clicking the terminal's launcher at %d, %d", x, y)
	if err := d.Click(ctx, x, y); err != nil {
		return api.Window{}, false, fmt.Errorf("click the launcher: %w", err)
	}
	var w api.Window
	err = poll(ctx, openWithin, func() (bool, error) {
		list, err := d.Windows().List(ctx)
		if err != nil {
			return false, fmt.Errorf("list windows: %w", err)
		}
		var ok bool
		w, ok = find(list)
		return ok, nil
	})
	if err != nil {
		return w, false, fmt.Errorf("wait for the terminal's window after a click at %d, %d: %w", x, y, err)
	}
	settle(ctx, d) // the shell's prompt
	return w, true, nil
}

// find finds the topmost window of a terminal.
func find(list []api.Window) (api.Window, bool) {
	for _, w := range slices.Backward(list) {
		if w.Type == "normal" && !w.Minimized && strings.Contains(strings.ToLower(w.Class), "terminal") {
			return w, true
		}
	}
	return api.Window{}, false
}

// launcherOffset is the distance from the panel's left edge to the middle of
// the terminal's launcher in the image debian-xfce, pixels: it is the first one
// behind the applications menu.
const launcherOffset = 122

// launcher finds where the terminal's launcher is: on the panel.
func launcher(list []api.Window) (x, y int, _ error) {
	for _, w := range list {
		if w.Type == "dock" {
			return w.X + launcherOffset, w.Y + w.Height/2, nil
		}
	}
	return 0, 0, api.Errorf(api.CodePrecondition, "the desktop has no panel to click on")
}

// await reads the result until it is as wanted.
func await(ctx context.Context, d *client.Desktop, want string) (string, error) {
	var got string
	err := poll(ctx, typedWithin, func() (bool, error) {
		res, err := d.Exec(ctx, "cat", resultPath)
		if err != nil {
			return false, fmt.Errorf("read the result: %w", err)
		}
		got = strings.TrimSpace(string(res.Stdout))
		return res.ExitCode == 0 && got == want, nil
	})
	if err != nil {
		return got, fmt.Errorf("wait for %q in %s, which holds %q: %w", want, resultPath, got, err)
	}
	return got, nil
}

// settle waits for a still screen. One that goes on moving is no fault.
func settle(ctx context.Context, d *client.Desktop) {
	_, _ = d.Screen().Wait(ctx, client.ScreenWait{For: "still", Still: 600 * time.Millisecond, Timeout: settleWithin})
}

// poll asks until the answer is yes.
func poll(ctx context.Context, within time.Duration, done func() (bool, error)) error {
	limit := time.NewTimer(within)
	defer limit.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return api.Errorf(api.CodeDeadline, "not within %s", within)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
