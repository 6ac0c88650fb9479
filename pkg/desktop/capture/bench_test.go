package capture_test

import (
	"image"
	"image/color"
	"testing"

	"github.com/deskfork/deskfork/pkg/desktop/capture"
)

func benchmark(b *testing.B, changed bool, o capture.Options) {
	b.Helper()
	s := newScreen(desk(1280, 800))
	f, err := s.Frame(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	c := camera(b, s)
	size := 0
	for b.Loop() {
		if changed {
			f.Seq++
		}
		r, err := c.Encode(b.Context(), f, o)
		if err != nil {
			b.Fatal(err)
		}
		size = len(r.Bytes)
	}
	b.ReportMetric(float64(size), "bytes")
}

func BenchmarkPNGChanged(b *testing.B)   { benchmark(b, true, capture.Options{}) }
func BenchmarkPNGUnchanged(b *testing.B) { benchmark(b, false, capture.Options{}) }
func BenchmarkPNGScaled(b *testing.B)    { benchmark(b, true, capture.Options{MaxWidth: 1024}) }
func BenchmarkPNGRegion(b *testing.B) {
	benchmark(b, true, capture.Options{Region: image.Rect(0, 0, 400, 300)})
}

func BenchmarkJPEGChanged(b *testing.B) { benchmark(b, true, capture.Options{Format: capture.JPEG}) }

// A text screen has few colours and takes the palette.
func BenchmarkPNGText(b *testing.B) {
	s := newScreen(few(1280, 800, 1))
	for y := 4; y < 780; y += 16 {
		for x := 4; x < 1270; x += 8 {
			s.img.SetRGBA(x+y%7, y+x%11, color.RGBA{250, 250, 250, 255})
		}
	}
	f, err := s.Frame(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	c := camera(b, s)
	for b.Loop() {
		f.Seq++
		if _, err := c.Encode(b.Context(), f, capture.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
