package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Desktop reaches the guest's X session. While there is none every call
// returns CodeNoDisplay.
type Desktop struct{ c *Client }

// Ready returns the screen once the session can be asked; it does not wait.
func (d *Desktop) Ready(ctx context.Context) (s guest.Screen, err error) {
	return s, d.c.call(ctx, guest.OpReady, struct{}{}, &s)
}

// Screenshot takes a picture of the whole screen.
func (d *Desktop) Screenshot(ctx context.Context, p guest.ScreenshotParams) (shot guest.Screenshot, err error) {
	shot.Data, err = d.exchange(ctx, guest.OpScreenshot, p, nil, &shot)
	return shot, err
}

// Screen returns the screen's geometry.
func (d *Desktop) Screen(ctx context.Context) (s guest.Screen, err error) {
	return s, d.c.call(ctx, guest.OpScreen, struct{}{}, &s)
}

// SetScreen changes the screen's size in pixels and returns what it became.
func (d *Desktop) SetScreen(ctx context.Context, w, h int) (s guest.Screen, err error) {
	return s, d.c.call(ctx, guest.OpSetScreen, guest.Screen{Width: w, Height: h}, &s)
}

// SetKeyboard sets the XKB layout, e.g. "de", "nodeadkeys".
func (d *Desktop) SetKeyboard(ctx context.Context, layout, variant string) error {
	return d.c.call(ctx, guest.OpSetKeyboard, guest.Keyboard{Layout: layout, Variant: variant}, nil)
}

// Pointer returns where the pointer is.
func (d *Desktop) Pointer(ctx context.Context) (p guest.Point, err error) {
	return p, d.c.call(ctx, guest.OpPointer, struct{}{}, &p)
}

// Input plays events in order; the first that cannot be played ends it.
func (d *Desktop) Input(ctx context.Context, events []guest.InputEvent) (res guest.InputResult, err error) {
	return res, d.c.call(ctx, guest.OpInput, guest.InputBatch{Events: events}, &res)
}

// ClipboardGet returns the clipboard's content as one of its types.
func (d *Desktop) ClipboardGet(ctx context.Context, kind string) (c guest.Clipboard, err error) {
	c.Data, err = d.exchange(ctx, guest.OpClipboardGet, guest.ClipboardParams{Type: kind}, nil, &c)
	if c.Type == "" {
		c.Type = kind
	}
	return c, err
}

// ClipboardSet replaces the clipboard's content.
func (d *Desktop) ClipboardSet(ctx context.Context, c guest.Clipboard) error {
	data := c.Data
	if data == nil {
		data = []byte{}
	}
	c.Data = nil
	_, err := d.exchange(ctx, guest.OpClipboardSet, c, data, nil)
	return err
}

// ClipboardTypes returns the types in which the clipboard can be read.
func (d *Desktop) ClipboardTypes(ctx context.Context) ([]string, error) {
	var t guest.ClipboardTargets
	err := d.c.call(ctx, guest.OpClipboardTypes, struct{}{}, &t)
	return t.Types, err
}

// Windows returns the top-level windows, bottom of the stack first.
func (d *Desktop) Windows(ctx context.Context) ([]guest.Window, error) {
	var l guest.WindowList
	err := d.c.call(ctx, guest.OpWindows, struct{}{}, &l)
	return l.Windows, err
}

// WindowOp changes one window.
func (d *Desktop) WindowOp(ctx context.Context, op guest.WindowOp) error {
	_, err := d.ChangeWindow(ctx, op)
	return err
}

// ChangeWindow is WindowOp that tells what became of the window.
func (d *Desktop) ChangeWindow(ctx context.Context, op guest.WindowOp) (done guest.WindowDone, err error) {
	return done, d.c.call(ctx, guest.OpWindow, op, &done)
}

// Launch starts a program in the session and returns its process id.
func (d *Desktop) Launch(ctx context.Context, l guest.Launch) (int, error) {
	var res guest.Launched
	err := d.c.call(ctx, guest.OpLaunch, l, &res)
	return res.PID, err
}

// Park starts a program and keeps its window off the screen until it is started
// again. It takes as long as the program's start: minutes under emulation.
func (d *Desktop) Park(ctx context.Context, p guest.Park) (done guest.Parked, err error) {
	return done, d.c.call(ctx, guest.OpPark, p, &done)
}

// Browsing calls each with whether a browser has a page open: at once, and at every
// change until ctx ends or the connection is lost. CodeUnsupported when the guest
// is too old to tell. A guest without a display has none open.
func (d *Desktop) Browsing(ctx context.Context, each func(open bool)) error {
	p, err := d.c.open(ctx, guest.OpBrowsing, struct{}{}, 1)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.Cancel)
	defer stop()
	if err := await(ctx, p, guest.OpBrowsing, nil); err != nil {
		return err
	}
	defer func() { _ = p.Streams[0].Close() }() // a lost link needs no close
	// A line that has no end is an error, and takes no memory.
	lines := bufio.NewScanner(onlyReader{p.Streams[0]})
	for lines.Scan() {
		var now guest.Browsing
		if err := json.Unmarshal(lines.Bytes(), &now); err != nil {
			return fmt.Errorf("%s: %w", guest.OpBrowsing, err)
		}
		each(now.Open)
	}
	return fmt.Errorf("%s: %w", guest.OpBrowsing, cmp.Or(lines.Err(), io.EOF))
}

// exchange makes a call with bytes beside its JSON, in either direction.
func (d *Desktop) exchange(ctx context.Context, op string, params any, in []byte, out any) ([]byte, error) {
	p, err := d.c.open(ctx, op, params, 1)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, p.Cancel)
	defer stop()
	st := p.Streams[0]
	if _, err = st.Write(in); err == nil {
		err = st.CloseWrite()
	}
	// A stream that broke has its reason in the answer.
	if answer := await(ctx, p, op, out); answer != nil {
		return nil, answer
	}
	if err != nil && !errors.Is(err, mux.ErrStopped) {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	defer func() { _ = st.Close() }() // a lost link needs no close
	b, err := io.ReadAll(io.LimitReader(st, guest.HelperMaxFrame))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return b, nil
}
