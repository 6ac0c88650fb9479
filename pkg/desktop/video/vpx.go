//go:build cgo

package video

/*
#cgo CFLAGS: -O3
#cgo LDFLAGS: -l:libvpx.a -lm -lpthread
#include "vpx.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"image"
	"runtime"
)

// Codecs lists what this build encodes, the best first.
func Codecs() []Codec { return []Codec{VP9, VP8, Tiles} }

// vpx is libvpx's encoder.
type vpx struct {
	cfg    Config
	handle *C.dfk_encoder
	begun  bool
}

func newVPX(cfg Config) (Encoder, error) {
	c := C.dfk_config{
		width: C.int(cfg.Size.X), height: C.int(cfg.Size.Y), shrink: C.int(cfg.Shrink),
		kbps: C.int(cfg.Bitrate), threads: C.int(cfg.Threads),
	}
	if cfg.Codec == VP9 {
		c.vp9 = 1
	}
	e := &vpx{cfg: cfg}
	if r := C.dfk_open(&c, &e.handle); r != 0 {
		return nil, e.fault("open the encoder", r)
	}
	return e, nil
}

func (e *vpx) fault(what string, code C.int) error {
	return fmt.Errorf("%s of %s: %s", what, e.cfg.Codec, C.GoString(C.dfk_error(e.handle, code)))
}

// Encode implements Encoder.
func (e *vpx) Encode(p Picture) (Chunk, error) {
	if e.handle == nil {
		return Chunk{}, errors.New("encode: the encoder is closed")
	}
	if err := e.cfg.check(p); err != nil {
		return Chunk{}, err
	}
	if !e.begun {
		p.Changed, p.Key, e.begun = []image.Rectangle{p.Image.Rect}, true, true
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&p.Image.Pix[0])
	in := C.dfk_picture{pix: (*C.uint8_t)(&p.Image.Pix[0]), stride: C.int(p.Image.Stride), elapsed_ms: C.int(p.Elapsed)}
	if p.Key {
		in.key = 1
	}
	in.changed, in.changed_n = corners(&pin, p.Changed, p.Image.Rect)
	in.refine, in.refine_n = corners(&pin, p.Refine, p.Image.Rect)
	var out C.dfk_chunk
	if r := C.dfk_encode(e.handle, &in, &out); r != 0 {
		return Chunk{}, e.fault("encode a picture", r)
	}
	size := e.cfg.size()
	return Chunk{
		Codec: e.cfg.Codec, Data: C.GoBytes(out.data, C.int(out.size)), Key: out.key != 0, Width: size.X, Height: size.Y,
	}, nil
}

// corners are the rectangles' parts on the screen, in pinned memory.
func corners(pin *runtime.Pinner, rects []image.Rectangle, screen image.Rectangle) (*C.int32_t, C.int) {
	numbers := make([]C.int32_t, 0, 4*len(rects))
	for _, r := range rects {
		if r = r.Intersect(screen); !r.Empty() {
			numbers = append(numbers, C.int32_t(r.Min.X), C.int32_t(r.Min.Y), C.int32_t(r.Max.X), C.int32_t(r.Max.Y))
		}
	}
	if len(numbers) == 0 {
		return nil, 0
	}
	pin.Pin(&numbers[0])
	return &numbers[0], C.int(len(numbers) / 4)
}

// SetBitrate implements Encoder.
func (e *vpx) SetBitrate(kbps int) error {
	if e.handle == nil {
		return errors.New("set bitrate: the encoder is closed")
	}
	if r := C.dfk_bitrate(e.handle, C.int(max(kbps, minBitrate))); r != 0 {
		return e.fault("set the bitrate", r)
	}
	return nil
}

// Close implements Encoder.
func (e *vpx) Close() {
	if e.handle != nil {
		C.dfk_close(e.handle)
		e.handle = nil
	}
}
