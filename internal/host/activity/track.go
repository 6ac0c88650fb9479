package activity

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Track makes the parts of a desktop tell a meter of the calls that may take
// long. The others are told by who asks for the parts.
func Track(l *live.Desktop, m *Meter) *live.Desktop {
	t := *l
	t.Link = link{l.Link, m}
	t.Execs = execs{l.Execs, m}
	t.Files = files{l.Files, m}
	t.Screen = screen{l.Screen, m}
	t.Input = input{l.Input, m}
	return &t
}

type link struct {
	live.Link

	m *Meter
}

// Dial implements live.Link. The connection is a call until it is closed.
func (l link) Dial(ctx context.Context, port int) (net.Conn, error) {
	leave := l.m.Enter()
	c, err := l.Link.Dial(ctx, port)
	if err != nil {
		leave()
		return nil, err
	}
	return conn{c, leave}, nil
}

// Freeze implements live.Freezer.
func (l link) Freeze(ctx context.Context, p guest.FreezeParams) (guest.Frozen, error) {
	if f, ok := l.Link.(live.Freezer); ok {
		return f.Freeze(ctx, p)
	}
	return guest.Frozen{}, errors.ErrUnsupported
}

// Thaw implements live.Freezer.
func (l link) Thaw(ctx context.Context, id string) (bool, error) {
	if f, ok := l.Link.(live.Freezer); ok {
		return f.Thaw(ctx, id)
	}
	return false, errors.ErrUnsupported
}

type conn struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c conn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite ends one direction, where the connection can do that.
func (c conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

type execs struct {
	live.Execs

	m *Meter
}

var (
	_ live.Waiter = execs{}
	_ live.Sealer = execs{}
)

// Run implements live.Execs.
func (x execs) Run(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (live.Ran, error) {
	defer x.m.Enter()()
	return x.Execs.Run(ctx, spec, stdin)
}

// Attach implements live.Execs.
func (x execs) Attach(ctx context.Context, p guest.ExecAttachParams) (live.Attachment, error) {
	leave := x.m.Enter()
	a, err := x.Execs.Attach(ctx, p)
	if err != nil {
		leave()
		return nil, err
	}
	return attachment{a, leave}, nil
}

// Wait implements live.Waiter: a program that runs is activity.
func (x execs) Wait(ctx context.Context, id guest.ExecID) (guest.ExecStatus, error) {
	w, ok := x.Execs.(live.Waiter)
	if !ok {
		return guest.ExecStatus{}, errors.ErrUnsupported
	}
	defer x.m.Enter()()
	return w.Wait(ctx, id)
}

// StartSealed implements live.Sealer.
func (x execs) StartSealed(ctx context.Context, spec guest.ExecSpec, s guest.Secrets) (guest.ExecStatus, error) {
	w, ok := x.Execs.(live.Sealer)
	if !ok {
		return guest.ExecStatus{}, errors.ErrUnsupported
	}
	return w.StartSealed(ctx, spec, s)
}

type attachment struct {
	live.Attachment

	leave func()
}

// Close implements live.Attachment.
func (a attachment) Close() error {
	a.leave()
	return a.Attachment.Close()
}

type files struct {
	live.Files

	m *Meter
}

var _ live.Watcher = files{}

// Read implements live.Files.
func (f files) Read(ctx context.Context, p guest.ReadParams, w io.Writer) error {
	defer f.m.Enter()()
	return f.Files.Read(ctx, p, w)
}

// Write implements live.Files.
func (f files) Write(ctx context.Context, p guest.WriteParams, r io.Reader) (guest.FileInfo, error) {
	defer f.m.Enter()()
	return f.Files.Write(ctx, p, r)
}

// TarOut implements live.Files.
func (f files) TarOut(ctx context.Context, p guest.PathParams, w io.Writer) error {
	defer f.m.Enter()()
	return f.Files.TarOut(ctx, p, w)
}

// TarIn implements live.Files.
func (f files) TarIn(ctx context.Context, p guest.PathParams, r io.Reader) (guest.TarResult, error) {
	defer f.m.Enter()()
	return f.Files.TarIn(ctx, p, r)
}

// Watch implements live.Watcher.
func (f files) Watch(ctx context.Context, p guest.WatchParams, each func(guest.FileChange) error) error {
	w, ok := f.Files.(live.Watcher)
	if !ok {
		return errors.ErrUnsupported
	}
	defer f.m.Enter()()
	return w.Watch(ctx, p, each)
}

type screen struct {
	live.Screen

	m *Meter
}

// Shot implements live.Screen.
func (s screen) Shot(ctx context.Context, shot live.Shot) (live.Picture, error) {
	if !shot.Peek {
		defer s.m.Enter()()
	}
	return s.Screen.Shot(ctx, shot)
}

// Wait implements live.Screen.
func (s screen) Wait(ctx context.Context, w live.Waiting) (uint64, error) {
	defer s.m.Enter()()
	return s.Screen.Wait(ctx, w)
}

type input struct {
	live.Input

	m *Meter
}

// Do implements live.Input.
func (i input) Do(ctx context.Context, b api.InputBatch) (api.InputReply, error) {
	defer i.m.Enter()()
	return i.Input.Do(ctx, b)
}
