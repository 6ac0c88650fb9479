//go:build cgo

package video_test

import (
	"errors"
	"image"
	"image/color"
	"testing"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

func open(t *testing.T, cfg video.Config) video.Encoder {
	t.Helper()
	e, err := video.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func shrunk(img *image.RGBA) *image.RGBA {
	out := image.NewRGBA(image.Rectangle{Max: img.Rect.Size().Div(2)})
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			for c := range 4 {
				sum := 0
				for _, d := range []image.Point{{}, {X: 1}, {Y: 1}, {X: 1, Y: 1}} {
					sum += int(img.Pix[img.PixOffset(2*x+d.X, 2*y+d.Y)+c])
				}
				out.Pix[out.PixOffset(x, y)+c] = byte((sum + 2) / 4)
			}
		}
	}
	return out
}

// TestDecoded: what a decoder makes of the chunks is what was on the screen: at
// once, after damage, and near to the pixel when it was refined.
func TestDecoded(t *testing.T) {
	for _, codec := range video.Codecs() {
		for _, tc := range []struct {
			name   string
			size   image.Point
			shrink int
		}{
			{"whole", image.Pt(640, 400), 1},
			{"odd sides", image.Pt(333, 251), 1},
			{"half", image.Pt(640, 400), 2},
			{"half of odd sides", image.Pt(335, 253), 2},
		} {
			t.Run(string(codec)+" "+tc.name, func(t *testing.T) {
				e := open(t, video.Config{Codec: codec, Size: tc.size, Shrink: tc.shrink})
				dec := videotest.NewDecoder(t, codec)
				img := videotest.Screen(tc.size.X, tc.size.Y, 1)
				step := func(what string, p video.Picture, least float64) video.Chunk {
					t.Helper()
					p.Image = img
					c, err := e.Encode(p)
					if err != nil {
						t.Fatal(err)
					}
					got, err := dec.Decode(c.Data, c.Width, c.Height)
					if err != nil {
						t.Fatal(err)
					}
					want := img
					if tc.shrink == 2 {
						want = shrunk(img)
					}
					if got.Rect != want.Rect {
						t.Fatalf("%s: %v, want %v", what, got.Rect, want.Rect)
					}
					psnr := videotest.PSNR(got, want)
					t.Logf("%s: %d bytes, %.1f dB", what, len(c.Data), psnr)
					if psnr < least {
						t.Errorf("%s: %.1f dB, want %.1f", what, psnr, least)
					}
					return c
				}
				if c := step("first", video.Picture{}, 22); !c.Key {
					t.Error("the first picture is no key")
				}
				step("refined", video.Picture{Refine: []image.Rectangle{img.Rect}, Elapsed: 300}, 30)
				mark := image.Rect(31, 41, 131, 81)
				videotest.Fill(img, mark, color.RGBA{20, 200, 40, 255})
				if c := step("changed", video.Picture{Changed: []image.Rectangle{mark}, Elapsed: 33}, 29); c.Key {
					t.Error("a change made a key")
				}
				if c := step("still", video.Picture{Elapsed: 1000}, 29); len(c.Data) > 200 {
					t.Errorf("a still picture takes %d bytes", len(c.Data))
				}
				if c := step("key", video.Picture{Key: true}, 22); !c.Key {
					t.Error("no key came")
				}
			})
		}
	}
}

// TestRefined: text that was scrolled at the rate of motion becomes sharp, and the
// rest of the screen costs nothing.
func TestRefined(t *testing.T) {
	for _, codec := range []video.Codec{video.VP9, video.VP8} {
		t.Run(string(codec), func(t *testing.T) {
			size := image.Pt(640, 400)
			e := open(t, video.Config{Codec: codec, Size: size, Bitrate: 500})
			dec := videotest.NewDecoder(t, codec)
			img := videotest.Screen(size.X, size.Y, 1)
			window := image.Rect(80, 70, 560, 350)
			step := func(p video.Picture) (size int, psnr float64) {
				t.Helper()
				p.Image = img
				c, err := e.Encode(p)
				if err != nil {
					t.Fatal(err)
				}
				got, err := dec.Decode(c.Data, c.Width, c.Height)
				if err != nil {
					t.Fatal(err)
				}
				return len(c.Data), videotest.PSNR(got, img)
			}
			step(video.Picture{})
			moving, sum := 0.0, 0
			for i := range 20 {
				videotest.Scroll(img, window, 28)
				videotest.Text(img, image.Rect(window.Min.X, window.Max.Y-28, window.Max.X, window.Max.Y), uint64(i))
				n, psnr := step(video.Picture{Changed: []image.Rectangle{window}, Elapsed: 33})
				moving, sum = psnr, sum+n
			}
			once, sharp := step(video.Picture{Refine: []image.Rectangle{window}, Elapsed: 300})
			t.Logf("scrolling %.1f dB, %d bytes a frame; refined %.1f dB for %d bytes", moving, sum/20, sharp, once)
			twice, sharper := step(video.Picture{Refine: []image.Rectangle{window}, Elapsed: 100})
			t.Logf("again %.1f dB for %d bytes", sharper, twice)
			if sharp < 34 || sharp < moving+8 || sharper < sharp {
				t.Errorf("refined to %.1f dB from %.1f", sharp, moving)
			}
		})
	}
}

// TestBitrate: a lower target makes motion smaller.
func TestBitrate(t *testing.T) {
	for _, codec := range []video.Codec{video.VP9, video.VP8} {
		t.Run(string(codec), func(t *testing.T) {
			size := image.Pt(320, 200)
			e := open(t, video.Config{Codec: codec, Size: size, Bitrate: 3000})
			run := func() (sum int) {
				for i := range 40 {
					img := videotest.Screen(size.X, size.Y, uint64(i))
					c, err := e.Encode(video.Picture{Image: img, Changed: []image.Rectangle{img.Rect}, Elapsed: 33})
					if err != nil {
						t.Fatal(err)
					}
					sum += len(c.Data)
				}
				return sum
			}
			fast := run()
			if err := e.SetBitrate(200); err != nil {
				t.Fatal(err)
			}
			if slow := run(); slow*3 > fast*2 {
				t.Errorf("%d bytes at 200 kbit/s after %d at 3000", slow, fast)
			}
		})
	}
}

// TestNew: what cannot be encoded is refused.
func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  video.Config
	}{
		{"no size", video.Config{}},
		{"too large", video.Config{Size: image.Pt(20000, 10)}},
		{"a third", video.Config{Size: image.Pt(640, 400), Shrink: 3}},
	} {
		if _, err := video.New(tc.cfg); err == nil {
			t.Errorf("%s: no error", tc.name)
		}
	}
	if _, err := video.New(video.Config{Codec: "h264", Size: image.Pt(64, 64)}); !errors.Is(err, desktop.ErrUnsupported) {
		t.Errorf("an unknown codec: %v", err)
	}
	e := open(t, video.Config{Size: image.Pt(64, 64)})
	if _, err := e.Encode(video.Picture{Image: image.NewRGBA(image.Rect(0, 0, 65, 64))}); err == nil {
		t.Error("a picture of another size was encoded")
	}
}
