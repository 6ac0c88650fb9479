// Package capture turns frames into pictures to send: PNG or JPEG, of a region,
// scaled down, with or without the cursor; and waits for what a screen is going
// to show. An unchanged screen is not encoded twice.
package capture

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"image"
	"image/draw"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Format is how a picture is encoded.
type Format string

// Formats.
const (
	PNG  Format = "png"
	JPEG Format = "jpeg"
)

// Options say what a picture shows. The zero value is a PNG of the whole
// screen, pixel by pixel, without the cursor.
type Options struct {
	Format   Format          // default PNG
	Quality  int             // of a JPEG, 1 to 100; default 80
	Region   image.Rectangle // in screen pixels; empty: the whole screen
	MaxWidth int             // pixels; a wider picture is scaled down; 0: as it is
	Cursor   bool            // draw the cursor, where its place is known
	// Pointer is where the pointer is, if the caller knows better than the
	// source (read back from the guest).
	Pointer *image.Point
	// NotBefore asks for a frame that is proven to hold what was drawn until
	// then, such as the end of an exec. Only a source that is a
	// desktop.Confirmer can; otherwise it is ErrUnsupported.
	NotBefore time.Time
}

func (o Options) normal() (Options, error) {
	switch o.Format {
	case "":
		o.Format = PNG
	case PNG, JPEG:
	default:
		return o, fmt.Errorf("encode screenshot: unknown format %q: use png or jpeg", o.Format)
	}
	if o.Quality < 0 || o.Quality > 100 {
		return o, fmt.Errorf("encode screenshot: quality %d: use 1 to 100", o.Quality)
	}
	if o.MaxWidth < 0 {
		return o, fmt.Errorf("encode screenshot: max width %d must not be negative", o.MaxWidth)
	}
	if o.Format == PNG {
		o.Quality = 0
	} else if o.Quality == 0 {
		o.Quality = 80
	}
	return o, nil
}

// Result is an encoded picture. Its bytes are shared; do not change them.
type Result struct {
	Bytes  []byte
	MIME   string
	Width  int // of the picture, in pixels
	Height int
	Scale  float64 // picture pixels per screen pixel, at most 1
	// View maps points of this picture to the screen and back, with Screen.
	View   desktop.View
	Screen image.Point // size of the screen
	Seq    uint64      // of the frame
	At     time.Time   // when the source last confirmed that these are the pixels
	ETag   string      // quoted; equal exactly when Bytes are
}

// Config says what a Camera works on. Source is required.
type Config struct {
	Source desktop.Source
	// Keep is how many encoded pictures are remembered. Default 4.
	Keep int
}

// Camera takes pictures of one screen. Safe for concurrent use.
type Camera struct {
	source desktop.Source
	keep   int
	salt   string // makes ETags of different cameras differ
	seed   maphash.Seed
	png    pngPool

	mu    sync.Mutex
	shots map[key]*shot
	order []key // least recently used first
}

// key is what decides the bytes of a picture.
type key struct {
	seq    uint64
	opts   pictureOptions
	cursor *image.RGBA
	hot    image.Point
	pos    image.Point
}

type pictureOptions struct {
	format  Format
	quality int
	region  image.Rectangle
	width   int
}

// shot is one encoding, under way until done is closed.
type shot struct {
	done chan struct{}
	res  Result
	err  error
}

// New returns a camera.
func New(cfg Config) (*Camera, error) {
	if cfg.Source == nil {
		return nil, errors.New("configure camera: Source is required")
	}
	if cfg.Keep < 0 {
		return nil, errors.New("configure camera: Keep must not be negative")
	}
	if cfg.Keep == 0 {
		cfg.Keep = 4
	}
	return &Camera{
		source: cfg.Source, keep: cfg.Keep, salt: strconv.FormatUint(rand.Uint64(), 36),
		seed: maphash.MakeSeed(), shots: map[key]*shot{},
	}, nil
}

// Shot takes a picture of the screen as it is now. Callers that want the same
// picture share one encoding.
func (c *Camera) Shot(ctx context.Context, opts Options) (*Result, error) {
	opts, err := opts.normal()
	if err != nil {
		return nil, err
	}
	f, err := c.frame(ctx, opts.NotBefore)
	if err != nil {
		return nil, err
	}
	return c.Encode(ctx, f, opts)
}

func (c *Camera) frame(ctx context.Context, notBefore time.Time) (*desktop.Frame, error) {
	var f *desktop.Frame
	var err error
	if notBefore.IsZero() {
		f, err = c.source.Frame(ctx)
	} else if confirmer, ok := c.source.(desktop.Confirmer); ok {
		f, err = confirmer.FrameAfter(ctx, notBefore)
		if err == nil {
			// The source may know of input that came later still.
			f, err = c.source.Frame(ctx)
		}
	} else {
		err = fmt.Errorf("source cannot confirm frames: %w", desktop.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("capture screen: %w", err)
	}
	return f, nil
}

// Encode makes a picture of a frame. NotBefore is not looked at.
func (c *Camera) Encode(ctx context.Context, f *desktop.Frame, opts Options) (*Result, error) {
	opts, err := opts.normal()
	if err != nil {
		return nil, err
	}
	screen := f.Image.Rect.Size()
	view := desktop.View{Region: opts.Region}
	shown, err := view.Shown(screen)
	if err != nil {
		return nil, fmt.Errorf("capture screen: %w", err)
	}
	if opts.MaxWidth > 0 && opts.MaxWidth < shown.Dx() {
		view.Width = opts.MaxWidth
	}
	k := key{seq: f.Seq, opts: pictureOptions{opts.Format, opts.Quality, shown, view.Width}}
	cur := f.Cursor
	if opts.Pointer != nil {
		cur.Pos = *opts.Pointer
	}
	if at := cursorRect(cur); opts.Cursor && at.Overlaps(shown) {
		k.cursor, k.hot, k.pos = cur.Image, cur.Hotspot, cur.Pos
	}
	s, mine := c.claim(k)
	if mine {
		s.res, s.err = c.encode(f, k, view)
		s.res.ETag = c.etag(s.res.Bytes)
		close(s.done)
		if s.err != nil {
			c.forget(k)
		}
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("encode screenshot: %w", ctx.Err())
	}
	if s.err != nil {
		return nil, s.err
	}
	res := s.res
	res.At = f.At
	return &res, nil
}

// claim returns the shot of a key and whether the caller has to make it.
func (c *Camera) claim(k key) (*shot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range c.order {
		if o == k {
			c.order = append(append(c.order[:i:i], c.order[i+1:]...), k)
			return c.shots[k], false
		}
	}
	if len(c.order) == c.keep {
		delete(c.shots, c.order[0])
		c.order = c.order[1:]
	}
	s := &shot{done: make(chan struct{})}
	c.shots[k] = s
	c.order = append(c.order, k)
	return s, true
}

func (c *Camera) forget(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.shots, k)
	for i, o := range c.order {
		if o == k {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			return
		}
	}
}

func (c *Camera) encode(f *desktop.Frame, k key, view desktop.View) (Result, error) {
	screen := f.Image.Rect.Size()
	img := crop(f.Image, k.opts.region)
	if k.cursor != nil {
		img = withCursor(img, desktop.Cursor{Image: k.cursor, Hotspot: k.hot, Pos: k.pos})
	}
	size, err := view.Size(screen)
	if err != nil {
		return Result{}, fmt.Errorf("encode screenshot: %w", err)
	}
	res := Result{Scale: 1, View: view, Screen: screen, Seq: f.Seq, Width: size.X, Height: size.Y}
	if size != img.Rect.Size() {
		res.Scale = float64(size.X) / float64(img.Rect.Dx())
		img = shrink(img, size)
	}
	if k.opts.format == JPEG {
		res.MIME = "image/jpeg"
		res.Bytes, err = encodeJPEG(img, k.opts.quality)
		return res, err
	}
	res.MIME = "image/png"
	res.Bytes, err = c.png.encode(img)
	return res, err
}

// crop is the part r of img; its pixels are shared and keep their coordinates.
func crop(img *image.RGBA, r image.Rectangle) *image.RGBA {
	return &image.RGBA{Pix: img.Pix[img.PixOffset(r.Min.X, r.Min.Y):], Stride: img.Stride, Rect: image.Rectangle{Min: r.Min, Max: r.Max}}
}

// cursorRect is where on the screen the cursor's picture is.
func cursorRect(cur desktop.Cursor) image.Rectangle {
	if cur.Image == nil {
		return image.Rectangle{}
	}
	return image.Rectangle{Max: cur.Image.Rect.Size()}.Add(cur.Pos).Sub(cur.Hotspot)
}

func withCursor(img *image.RGBA, cur desktop.Cursor) *image.RGBA {
	out := image.NewRGBA(img.Rect)
	draw.Draw(out, out.Rect, img, img.Rect.Min, draw.Src)
	draw.Draw(out, cursorRect(cur), cur.Image, cur.Image.Rect.Min, draw.Over)
	return out
}
