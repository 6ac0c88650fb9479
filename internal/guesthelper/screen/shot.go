//go:build linux

// Package screen captures the screen of the desktop session and sets its size.
//
// It captures over the helper's own connection with MIT-SHM. The well-known
// capture library (kbinani/screenshot) is not used: it opens a connection and
// initialises extensions for every picture, and that writes package-level maps
// of the X library (xgb.NewEventFuncs) which the reader of any other
// connection in the process reads, so that Go ends the process with
// "concurrent map read and map write"; it also copies pixel by pixel, which a
// guest without hardware virtualisation feels.
package screen

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"sync"

	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"
	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

const allPlanes = ^uint32(0)

// Screen is the screen of a display. Safe for concurrent use; captures take
// turns.
type Screen struct {
	d         *display.Display
	hasShm    bool
	hasCursor bool
	hasRandr  bool

	mu  sync.Mutex
	seg shm.Seg // shared with the server
	mem []byte  // the same memory here; nil until the first capture
}

// geometry returns the size of the root window as it is now.
func (s *Screen) geometry() (w, h int, err error) {
	g, err := xproto.GetGeometry(s.d.Conn, xproto.Drawable(s.d.Root)).Reply()
	if err != nil {
		return 0, 0, display.Wrap(err, "read screen size")
	}
	return int(g.Width), int(g.Height), nil
}

// Size returns the screen's geometry.
func (s *Screen) Size() (guest.Screen, error) {
	w, h, err := s.geometry()
	return guest.Screen{Width: w, Height: h, Scale: 1}, err
}

// Capture returns the screen's pixels, opaque, with the pointer drawn in when
// cursor is set.
func (s *Screen) Capture(ctx context.Context, cursor bool) (*image.RGBA, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var (
		img *image.RGBA
		err error
	)
	for range 3 { // the size may change between reading it and the capture
		var w, h int
		if w, h, err = s.geometry(); err != nil {
			return nil, err
		}
		if img, err = s.pixels(w, h); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if cursor {
		if err := s.drawCursor(img); err != nil {
			return nil, err
		}
	}
	return img, nil
}

// Shot captures the screen in the format asked for.
func (s *Screen) Shot(ctx context.Context, p guest.ScreenshotParams) (guest.Screenshot, error) {
	if p.Format == "" {
		p.Format = guest.FormatPNG
	}
	if p.Format != guest.FormatPNG && p.Format != guest.FormatRGBA {
		return guest.Screenshot{}, &guest.Error{
			Code: guest.CodeInvalid, Message: fmt.Sprintf("screenshot format %q: use png or rgba", p.Format),
		}
	}
	img, err := s.Capture(ctx, p.Cursor)
	if err != nil {
		return guest.Screenshot{}, err
	}
	shot := guest.Screenshot{Format: p.Format, Width: img.Rect.Dx(), Height: img.Rect.Dy(), Data: img.Pix}
	if p.Format == guest.FormatRGBA {
		return shot, nil
	}
	var buf bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&buf, img); err != nil {
		return guest.Screenshot{}, fmt.Errorf("encode screenshot: %w", err)
	}
	shot.Data = buf.Bytes()
	return shot, nil
}

func (s *Screen) pixels(w, h int) (*image.RGBA, error) {
	raw, err := s.raw(w, h)
	if err != nil {
		return nil, err
	}
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	if len(raw) < len(img.Pix) {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: "the screen's pixels are not 32 bits wide; run the X server with depth 24"}
	}
	ToRGBA(img.Pix, raw)
	return img, nil
}

func (s *Screen) raw(w, h int) ([]byte, error) {
	root := xproto.Drawable(s.d.Root)
	if s.hasShm {
		if err := s.share(4 * w * h); err == nil {
			_, err := shm.GetImage(s.d.Conn, root, 0, 0, uint16(w), uint16(h),
				allPlanes, xproto.ImageFormatZPixmap, s.seg, 0).Reply()
			return s.mem, display.Wrap(err, "capture screen")
		}
		s.hasShm = false // a server on another machine or user: slower, but it works
	}
	r, err := xproto.GetImage(s.d.Conn, xproto.ImageFormatZPixmap, root, 0, 0, uint16(w), uint16(h), allPlanes).Reply()
	if err != nil {
		return nil, display.Wrap(err, "capture screen")
	}
	return r.Data, nil
}

// share has n bytes of memory shared with the server.
func (s *Screen) share(n int) error {
	if len(s.mem) >= n {
		return nil
	}
	s.unshare()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, n, unix.IPC_CREAT|0o600)
	if err != nil {
		return fmt.Errorf("make shared memory: %w", err)
	}
	// Marked at once: it goes away with its last user, however that ends.
	defer func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) }()
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return fmt.Errorf("attach shared memory: %w", err)
	}
	seg, err := shm.NewSegId(s.d.Conn)
	if err == nil {
		err = shm.AttachChecked(s.d.Conn, seg, uint32(id), false).Check()
	}
	if err != nil {
		_ = unix.SysvShmDetach(mem)
		return display.Wrap(err, "share memory with the X server")
	}
	s.seg, s.mem = seg, mem
	return nil
}

func (s *Screen) unshare() {
	if s.mem == nil {
		return
	}
	shm.Detach(s.d.Conn, s.seg)
	_ = unix.SysvShmDetach(s.mem)
	s.mem = nil
}

func (s *Screen) drawCursor(img *image.RGBA) error {
	if !s.hasCursor {
		return &guest.Error{Code: guest.CodeUnsupported, Message: "draw pointer: the X server lacks XFIXES"}
	}
	c, err := xfixes.GetCursorImage(s.d.Conn).Reply()
	if err != nil {
		return display.Wrap(err, "read the pointer's picture")
	}
	at := image.Pt(int(c.X)-int(c.Xhot), int(c.Y)-int(c.Yhot))
	Blend(img, c.CursorImage, at, int(c.Width))
	return nil
}
