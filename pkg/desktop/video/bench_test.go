//go:build cgo

package video_test

import (
	"image"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// BenchmarkEncode: one frame at 1280x800 of what people see most.
func BenchmarkEncode(b *testing.B) {
	size := image.Pt(1280, 800)
	window := image.Rect(180, 130, 1100, 680)
	for _, codec := range video.Codecs() {
		for _, tc := range []struct {
			name string
			draw func(img *image.RGBA, i int) video.Picture
		}{
			{"still", func(*image.RGBA, int) video.Picture { return video.Picture{Elapsed: 1000} }},
			{"typing", func(img *image.RGBA, i int) video.Picture {
				r := image.Rect(200, 300, 207, 314).Add(image.Pt(7*(i%100), 0))
				videotest.Text(img, r, uint64(i))
				return video.Picture{Changed: []image.Rectangle{r}, Elapsed: 100}
			}},
			{"scrolling", func(img *image.RGBA, i int) video.Picture {
				videotest.Scroll(img, window, 42)
				last := window
				last.Min.Y = last.Max.Y - 42
				videotest.Text(img, last, uint64(i))
				return video.Picture{Changed: []image.Rectangle{window}, Elapsed: 33}
			}},
			{"refining all", func(img *image.RGBA, _ int) video.Picture {
				return video.Picture{Refine: []image.Rectangle{img.Rect}, Elapsed: 300}
			}},
			{"key", func(*image.RGBA, int) video.Picture { return video.Picture{Key: true, Elapsed: 500} }},
		} {
			b.Run(string(codec)+"/"+tc.name, func(b *testing.B) {
				e, err := video.New(video.Config{Codec: codec, Size: size})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				img := videotest.Screen(size.X, size.Y, 1)
				if _, err := e.Encode(video.Picture{Image: img}); err != nil {
					b.Fatal(err)
				}
				bytes, before := 0, used(b)
				for i := 0; b.Loop(); i++ {
					p := tc.draw(img, i)
					p.Image = img
					c, err := e.Encode(p)
					if err != nil {
						b.Fatal(err)
					}
					bytes += len(c.Data)
				}
				b.ReportMetric(float64(bytes)/float64(b.N), "bytes/frame")
				b.ReportMetric(float64((used(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/frame")
			})
		}
	}
}

// used is the processor time of this process: what others do does not count.
func used(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
