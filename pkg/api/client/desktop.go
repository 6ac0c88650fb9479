package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Desktop is a handle on one desktop. It is made by Client.Desktop,
// Desktops.Create and Desktop.Fork and holds no connection.
type Desktop struct {
	// Info is what the server said when the handle was made by Create or Fork;
	// zero from Client.Desktop. Get asks anew.
	Info api.Desktop

	handle
}

func newDesktop(c *Client, ref string, info api.Desktop) *Desktop {
	return &Desktop{Info: info, handle: handle{c: c, ref: ref}}
}

// Holding is the same desktop, with a holder and epoch of its control lease of
// its own.
func (d *Desktop) Holding(holder string, epoch uint64) *Desktop {
	server := *d.c.server
	server.Holder, server.Epoch = holder, epoch
	return newDesktop(&Client{server: &server, patience: d.c.patience}, d.ref, d.Info)
}

// Get describes the desktop.
func (d *Desktop) Get(ctx context.Context) (api.Desktop, error) {
	return d.c.Desktops().Get(ctx, d.ref)
}

// Wait returns when a stage is reached, with the failure of a stage as its
// error, and with the code deadline after timeout (0: the server's default).
func (d *Desktop) Wait(ctx context.Context, stage api.Stage, timeout time.Duration) (api.Desktop, error) {
	q := url.Values{"stage": {string(stage)}}
	if timeout > 0 {
		q.Set("timeout", timeout.String())
	}
	return wire.Fetch[api.Desktop](ctx, d.c.server, wire.Call{Path: d.path("/wait"), Query: q})
}

// Delete ends the desktop and removes what it owned.
func (d *Desktop) Delete(ctx context.Context) error { return d.c.Desktops().Delete(ctx, d.ref) }

// Exec runs a program as the desktop's user and waits for its end. An exit code
// other than 0 is not an error.
func (d *Desktop) Exec(ctx context.Context, argv ...string) (api.ExecResult, error) {
	return d.Execs().Run(ctx, api.Exec{Argv: argv})
}

// Screenshot takes a PNG of the whole screen.
func (d *Desktop) Screenshot(ctx context.Context) (*Screenshot, error) {
	return d.Screen().Screenshot(ctx, ScreenshotOptions{})
}

// Click clicks the left button at a point of the screen, in pixels.
func (d *Desktop) Click(ctx context.Context, x, y int) error {
	return d.Input().Click(ctx, x, y, ClickOptions{})
}

// Type types text, any Unicode, where the keyboard's focus is.
func (d *Desktop) Type(ctx context.Context, text string) error { return d.Input().Type(ctx, text) }

// Key presses a chord such as "ctrl+s" or "Return".
func (d *Desktop) Key(ctx context.Context, chord string) error { return d.Input().Key(ctx, chord, 1) }

// Launch starts a program, or opens a URL, in the desktop's session and returns
// its process id in the guest.
func (d *Desktop) Launch(ctx context.Context, what api.Launch) (int, error) {
	l, err := wire.Fetch[api.Launched](ctx, d.c.server, wire.Call{Method: http.MethodPost, Path: d.path("/launch"), JSON: what})
	return l.PID, err
}

// LogOptions chooses a log. Zero: the last lines of the serial console.
type LogOptions struct {
	Source string // serial or qemu
	Tail   int    // lines; 0: the server's default, negative: all
	Follow bool   // go on until the machine ends or the reader closes
}

// Logs reads a log of the machine. The caller closes it.
func (d *Desktop) Logs(ctx context.Context, opts LogOptions) (io.ReadCloser, error) {
	q := url.Values{}
	if opts.Source != "" {
		q.Set("source", opts.Source)
	}
	if opts.Tail != 0 {
		q.Set("tail", strconv.Itoa(opts.Tail))
	}
	if opts.Follow {
		q.Set("follow", "true")
	}
	resp, err := d.c.server.Open(ctx, wire.Call{Path: d.path("/logs"), Query: q})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Preview makes a link under which a browser reaches a port of the guest for a
// while (0: the server's default).
func (d *Desktop) Preview(ctx context.Context, port int, ttl time.Duration) (api.Ticket, error) {
	return wire.Fetch[api.Ticket](ctx, d.c.server, wire.Call{
		Method: http.MethodPost, Path: d.path("/tickets"),
		JSON: api.CreateTicket{Kind: "preview", Port: port, TTLS: int(ttl / time.Second)},
	})
}

// Execs runs programs.
func (d *Desktop) Execs() *Execs { return &Execs{d: d} }

// Files reads and writes the guest's file system.
func (d *Desktop) Files() *Files { return &Files{d: d} }

// Screen looks at the screen and sets it up.
func (d *Desktop) Screen() *Screen { return &Screen{d: d} }

// Input moves the pointer and presses buttons and keys.
func (d *Desktop) Input() *Input { return &Input{d: d} }

// Windows lists and changes windows.
func (d *Desktop) Windows() *Windows { return &Windows{d: d} }

// Clipboard reads and sets the clipboard.
func (d *Desktop) Clipboard() *Clipboard { return &Clipboard{d: d} }
