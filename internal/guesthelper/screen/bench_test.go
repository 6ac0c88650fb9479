package screen_test

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/deskfork/deskfork/internal/guesthelper/screen"
)

func BenchmarkToRGBA(b *testing.B) {
	src, dst := make([]byte, 4*1280*800), make([]byte, 4*1280*800)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		screen.ToRGBA(dst, src)
	}
}

func BenchmarkEncode(b *testing.B) {
	img := image.NewRGBA(image.Rect(0, 0, 1280, 800))
	for i := range img.Pix {
		img.Pix[i] = byte(i>>7) | 1
		if i%4 == 3 {
			img.Pix[i] = 255
		}
	}
	for b.Loop() {
		var buf bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&buf, img); err != nil {
			b.Fatal(err)
		}
	}
}
