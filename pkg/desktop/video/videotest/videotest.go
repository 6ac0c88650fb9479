//go:build cgo

// Package videotest decodes what encoders made, with libvpx and image/jpeg, and
// draws screens to encode.
package videotest

/*
#cgo LDFLAGS: -l:libvpx.a -lm -lpthread
#include <stdlib.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>

static int open_decoder(vpx_codec_ctx_t *x, int vp9) {
	return vpx_codec_dec_init(x, vp9 ? vpx_codec_vp9_dx() : vpx_codec_vp8_dx(), NULL, 0);
}

static vpx_image_t *next(vpx_codec_ctx_t *x) {
	vpx_codec_iter_t iter = NULL;
	return vpx_codec_get_frame(x, &iter);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"testing"
	"unsafe"

	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// Decoder decodes the chunks of one encoder, in order.
type Decoder struct {
	codec  video.Codec
	ctx    *C.vpx_codec_ctx_t
	canvas *image.RGBA // of tiles
}

// NewDecoder makes a decoder that ends with the test.
func NewDecoder(t *testing.T, codec video.Codec) *Decoder {
	t.Helper()
	d := &Decoder{codec: codec}
	if codec == video.Tiles {
		return d
	}
	d.ctx = (*C.vpx_codec_ctx_t)(C.calloc(1, C.sizeof_vpx_codec_ctx_t))
	vp9 := C.int(0)
	if codec == video.VP9 {
		vp9 = 1
	}
	if r := C.open_decoder(d.ctx, vp9); r != 0 {
		t.Fatalf("open decoder of %s: %s", codec, C.GoString(C.vpx_codec_err_to_string(C.vpx_codec_err_t(r))))
	}
	t.Cleanup(func() {
		C.vpx_codec_destroy(d.ctx)
		C.free(unsafe.Pointer(d.ctx))
	})
	return d
}

// Decode returns the picture that a chunk makes of the one before.
func (d *Decoder) Decode(data []byte, width, height int) (*image.RGBA, error) {
	if d.codec == video.Tiles {
		return d.tiles(data, width, height)
	}
	p := C.CBytes(data)
	defer C.free(p)
	if r := C.vpx_codec_decode(d.ctx, (*C.uint8_t)(p), C.uint(len(data)), nil, 0); r != 0 {
		return nil, fmt.Errorf("decode %s: %s", d.codec, C.GoString(C.vpx_codec_err_to_string(r)))
	}
	img := C.next(d.ctx)
	if img == nil {
		return nil, fmt.Errorf("decode %s: no picture", d.codec)
	}
	return rgba(img), nil
}

func rgba(img *C.vpx_image_t) *image.RGBA {
	w, h := int(img.d_w), int(img.d_h)
	plane := func(i, rows int) ([]byte, int) {
		stride := int(img.stride[i])
		return unsafe.Slice((*byte)(unsafe.Pointer(img.planes[i])), stride*rows), stride
	}
	ys, ystride := plane(0, h)
	us, ustride := plane(1, (h+1)/2)
	vs, vstride := plane(2, (h+1)/2)
	out := image.NewRGBA(image.Rect(0, 0, w, h))
	clamp := func(v int) byte { return byte(min(max((v+128)>>8, 0), 255)) }
	for y := range h {
		for x := range w {
			l := 298 * (int(ys[y*ystride+x]) - 16)
			u, v := int(us[y/2*ustride+x/2])-128, int(vs[y/2*vstride+x/2])-128
			p := out.Pix[out.PixOffset(x, y):]
			p[0], p[1], p[2], p[3] = clamp(l+409*v), clamp(l-100*u-208*v), clamp(l+516*u), 255
		}
	}
	return out
}

func (d *Decoder) tiles(data []byte, width, height int) (*image.RGBA, error) {
	if size := image.Rect(0, 0, width, height); d.canvas == nil || d.canvas.Rect != size {
		d.canvas = image.NewRGBA(size)
	}
	tiles, err := video.ParseTiles(data)
	if err != nil {
		return nil, err
	}
	for _, t := range tiles {
		img, err := jpeg.Decode(bytes.NewReader(t.JPEG))
		if err != nil {
			return nil, fmt.Errorf("decode tile: %w", err)
		}
		draw.Draw(d.canvas, image.Rectangle{Max: img.Bounds().Size()}.Add(t.At), img, image.Point{}, draw.Src)
	}
	return &image.RGBA{Pix: bytes.Clone(d.canvas.Pix), Stride: d.canvas.Stride, Rect: d.canvas.Rect}, nil
}
