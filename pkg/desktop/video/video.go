package video

import (
	"cmp"
	"fmt"
	"image"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Codec is how pictures are encoded.
type Codec string

// Codecs.
const (
	VP9   Codec = "vp9"
	VP8   Codec = "vp8"
	Tiles Codec = "tiles" // see Tile
)

// Limits of a picture's side and of a bitrate.
const (
	maxSide    = 16383 // of VP8
	minBitrate = 50    // kbit/s
)

// Config says what an Encoder encodes. Size is required.
type Config struct {
	Codec   Codec       // default VP9
	Size    image.Point // of the screen, in pixels
	Shrink  int         // 2: the picture is half as wide and high as the screen; default 1
	Bitrate int         // kbit/s at 30 frames a second; default 2500
	Threads int         // default 1
}

func (c Config) normal() (Config, error) {
	c.Codec, c.Shrink = cmp.Or(c.Codec, VP9), cmp.Or(c.Shrink, 1)
	c.Bitrate, c.Threads = max(cmp.Or(c.Bitrate, 2500), minBitrate), cmp.Or(c.Threads, 1)
	if c.Shrink != 1 && c.Shrink != 2 {
		return c, fmt.Errorf("configure encoder: shrink %d: use 1 or 2", c.Shrink)
	}
	if c.Size.X < c.Shrink || c.Size.Y < c.Shrink || c.Size.X > maxSide || c.Size.Y > maxSide {
		return c, fmt.Errorf("configure encoder: a screen of %v: use sides of %d to %d pixels", c.Size, c.Shrink, maxSide)
	}
	return c, nil
}

// size is that of the pictures.
func (c Config) size() image.Point { return c.Size.Div(c.Shrink) }

// Picture is what to encode next.
type Picture struct {
	Image *image.RGBA // of the configured size, opaque, bounds from (0,0)
	// Changed holds every pixel that differs from the Image before; of the first
	// everything does.
	Changed []image.Rectangle
	// Refine holds what is to be encoded again, although it is the same, at the
	// best quality there is.
	Refine []image.Rectangle
	// Key asks for a picture that needs none before it.
	Key bool
	// Elapsed is the time since the picture before, in milliseconds.
	Elapsed int
}

// Chunk is an encoded picture.
type Chunk struct {
	Codec  Codec
	Data   []byte
	Key    bool
	Width  int // of the picture, in pixels
	Height int
}

// Encoder makes chunks of pictures. It is used by one goroutine at a time, and
// closed once.
type Encoder interface {
	Encode(p Picture) (Chunk, error)
	// SetBitrate changes the target, in kbit/s.
	SetBitrate(kbps int) error
	Close()
}

// New makes an encoder. A codec that this build lacks is desktop.ErrUnsupported.
func New(cfg Config) (Encoder, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	switch cfg.Codec {
	case VP9, VP8:
		return newVPX(cfg)
	case Tiles:
		return &tiler{cfg: cfg}, nil
	}
	return nil, fmt.Errorf("encode %q: %w", cfg.Codec, desktop.ErrUnsupported)
}

// check refuses a picture of another size.
func (c Config) check(p Picture) error {
	if p.Image == nil || p.Image.Rect != (image.Rectangle{Max: c.Size}) {
		return fmt.Errorf("encode a picture that is not %v: make an encoder for its size", c.Size)
	}
	return nil
}
