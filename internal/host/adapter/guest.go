package adapter

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// link is the connection to guestd and what runs beside it.
type link struct {
	*client.Client

	// beside keeps the picture going; nil when there is none.
	beside func(ctx context.Context) error
}

var (
	_ live.Link   = (*link)(nil)
	_ live.Rester = (*link)(nil)

	_ live.Freezer = (*link)(nil)
)

// Run implements live.Link.
func (l *link) Run(ctx context.Context) error {
	if l.beside == nil {
		return l.Client.Run(ctx)
	}
	return both(ctx, l.Client.Run, l.beside)
}

// Dial implements live.Link.
func (l *link) Dial(ctx context.Context, port int) (net.Conn, error) {
	return l.DialPort(ctx, "", port)
}

// SetClock implements live.Rester.
func (l *link) SetClock(ctx context.Context, now time.Time) error { return l.System.SetClock(ctx, now) }

// Freeze implements live.Freezer.
func (l *link) Freeze(ctx context.Context, p guest.FreezeParams) (guest.Frozen, error) {
	return l.System.Freeze(ctx, p)
}

// Thaw implements live.Freezer.
func (l *link) Thaw(ctx context.Context, id string) (bool, error) { return l.System.Thaw(ctx, id) }

// execs are the guest's programs. touched is called when one may have drawn.
type execs struct {
	*client.Exec

	touched func()
}

var (
	_ live.Execs  = execs{}
	_ live.Waiter = execs{}
	_ live.Sealer = execs{}
	_ live.Taker  = (*client.Stdin)(nil)
)

// Run implements live.Execs.
func (x execs) Run(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (live.Ran, error) {
	defer x.touched()
	res, err := x.Exec.Run(ctx, spec, stdin)
	return live.Ran{Status: res.Status, Stdout: res.Stdout, Stderr: res.Stderr, Truncated: res.Truncated}, err
}

// Attach implements live.Execs.
func (x execs) Attach(ctx context.Context, p guest.ExecAttachParams) (live.Attachment, error) {
	a, err := x.Exec.Attach(ctx, p.ID, client.AttachOptions{OutFrom: p.OutFrom, ErrFrom: p.ErrFrom, Stdin: p.Stdin, Lag: p.Lag})
	if err != nil {
		return nil, err
	}
	return attachment{Attachment: a, touched: x.touched, fed: p.Stdin}, nil
}

type attachment struct {
	*client.Attachment

	touched func()
	fed     bool
}

// Started implements live.Attachment.
func (a attachment) Started() guest.ExecAttached {
	return guest.ExecAttached{Status: a.Status, OutFrom: a.OutFrom, ErrFrom: a.ErrFrom}
}

// Stdout implements live.Attachment.
func (a attachment) Stdout() io.Reader { return a.Attachment.Stdout }

// Stderr implements live.Attachment.
func (a attachment) Stderr() io.Reader { return a.Attachment.Stderr }

// Stdin implements live.Attachment.
func (a attachment) Stdin() io.WriteCloser {
	if !a.fed {
		return nil
	}
	return a.Attachment.Stdin
}

// Wait implements live.Attachment.
func (a attachment) Wait(ctx context.Context) (guest.ExecStatus, error) {
	defer a.touched()
	return a.Attachment.Wait(ctx)
}

// files are the guest's files.
type files struct{ all *client.Files }

var (
	_ live.Files   = files{}
	_ live.Watcher = files{}
)

func (f files) of(p guest.PathParams) *client.Files {
	if p.User == "" {
		return f.all
	}
	return f.all.As(p.User)
}

// Stat implements live.Files.
func (f files) Stat(ctx context.Context, p guest.PathParams) (guest.FileInfo, error) {
	return f.of(p).Stat(ctx, p.Path)
}

// List implements live.Files.
func (f files) List(ctx context.Context, p guest.ListParams) ([]guest.FileInfo, error) {
	return f.of(p.PathParams).List(ctx, p.Path, p.Recursive)
}

// Read implements live.Files.
func (f files) Read(ctx context.Context, p guest.ReadParams, w io.Writer) error {
	r, _, err := f.of(p.PathParams).Read(ctx, p.Path, p.Offset, p.N)
	if err != nil {
		return err
	}
	return drain(ctx, w, r)
}

// drain copies a guest's stream; the end of ctx ends it.
func drain(ctx context.Context, w io.Writer, r io.ReadCloser) error {
	stop := context.AfterFunc(ctx, func() { _ = r.Close() })
	defer stop()
	defer r.Close()
	_, err := io.Copy(struct{ io.Writer }{w}, r)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Write implements live.Files.
func (f files) Write(ctx context.Context, p guest.WriteParams, r io.Reader) (guest.FileInfo, error) {
	return f.of(p.PathParams).Write(ctx, p.Path, client.WriteOptions{
		Mode: p.Mode, Append: p.Append, Offset: p.Offset, Exclusive: p.Exclusive, MakeParents: p.MakeParents,
	}, r)
}

// Change implements live.Files.
func (f files) Change(ctx context.Context, change any) error {
	switch c := change.(type) {
	case guest.MkdirParams:
		_, err := f.of(c.PathParams).Mkdir(ctx, c.Path, c.Mode, c.Parents)
		return err
	case guest.RemoveParams:
		return f.of(c.PathParams).Remove(ctx, c.Path, c.Recursive)
	case guest.RenameParams:
		return f.of(c.PathParams).Rename(ctx, c.Path, c.To)
	case guest.ChmodParams:
		return f.of(c.PathParams).Chmod(ctx, c.Path, c.Mode)
	}
	return api.Errorf(api.CodeInternal, "%s", fmt.Sprintf("unknown change of a file: %T", change))
}

// TarOut implements live.Files.
func (f files) TarOut(ctx context.Context, p guest.PathParams, w io.Writer) error {
	r, err := f.of(p).TarOut(ctx, p.Path)
	if err != nil {
		return err
	}
	return drain(ctx, w, r)
}

// TarIn implements live.Files.
func (f files) TarIn(ctx context.Context, p guest.PathParams, r io.Reader) (guest.TarResult, error) {
	return f.of(p).TarIn(ctx, p.Path, r)
}

// Watch implements live.Watcher.
func (f files) Watch(ctx context.Context, p guest.WatchParams, each func(guest.FileChange) error) error {
	ctx, cancel := context.WithCancel(ctx)
	changes, err := f.of(p.PathParams).Watch(ctx, p.Path, p.Recursive)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		for range changes {
			// Its close is the end of the watch's goroutine.
		}
	}()
	for c := range changes {
		if err := each(c); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// session is the guest's X session.
type session struct {
	d       *client.Desktop
	touched func()
}

var (
	_ live.Session = session{}
	_ live.Windows = windows{}
	_ live.Browser = windows{}
)

// Ready implements live.Session.
func (s session) Ready(ctx context.Context) (guest.Screen, error) { return s.d.Ready(ctx) }

// SetScreen implements live.Session.
func (s session) SetScreen(ctx context.Context, width, height int) (guest.Screen, error) {
	defer s.touched()
	return s.d.SetScreen(ctx, width, height)
}

// SetKeyboard implements live.Session.
func (s session) SetKeyboard(ctx context.Context, k guest.Keyboard) error {
	return s.d.SetKeyboard(ctx, k.Layout, k.Variant)
}

// Pointer implements live.Session.
func (s session) Pointer(ctx context.Context) (guest.Point, error) { return s.d.Pointer(ctx) }

// Screenshot implements live.Session.
func (s session) Screenshot(ctx context.Context, cursor bool) (guest.Screenshot, error) {
	return s.d.Screenshot(ctx, guest.ScreenshotParams{Format: guest.FormatPNG, Cursor: cursor})
}

// Launch implements live.Session.
func (s session) Launch(ctx context.Context, l guest.Launch) (int, error) {
	defer s.touched()
	return s.d.Launch(ctx, l)
}

// Park implements live.Session.
func (s session) Park(ctx context.Context, p guest.Park) error {
	defer s.touched()
	_, err := s.d.Park(ctx, p)
	return err
}

// windows are the guest's windows and clipboard.
type windows struct {
	d       *client.Desktop
	touched func()
}

// List implements live.Windows.
func (w windows) List(ctx context.Context) ([]guest.Window, error) { return w.d.Windows(ctx) }

// Do implements live.Windows.
func (w windows) Do(ctx context.Context, op guest.WindowOp) error {
	defer w.touched()
	return w.d.WindowOp(ctx, op)
}

// Clipboard implements live.Windows.
func (w windows) Clipboard(ctx context.Context, typ string) (guest.Clipboard, error) {
	return w.d.ClipboardGet(ctx, typ)
}

// SetClipboard implements live.Windows.
func (w windows) SetClipboard(ctx context.Context, c guest.Clipboard) error {
	return w.d.ClipboardSet(ctx, c)
}

// Browsing implements live.Browser.
func (w windows) Browsing(ctx context.Context, each func(open bool)) error {
	return w.d.Browsing(ctx, each)
}

// Guest makes the parts of a desktop that the guest's client serves. touched is
// called when something in the guest may have drawn, beside runs as long as the
// link; both may be nil.
func Guest(c *client.Client, touched func(), beside func(context.Context) error) *live.Desktop {
	if touched == nil {
		touched = func() {}
	}
	return &live.Desktop{
		Link:    &link{Client: c, beside: beside},
		Execs:   execs{Exec: c.Exec, touched: touched},
		Files:   files{all: c.Files},
		Session: session{d: c.Desktop, touched: touched},
		Windows: windows{d: c.Desktop, touched: touched},
	}
}
