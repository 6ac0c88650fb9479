package sheet_test

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/sheet"
)

func plain(t *testing.T, width, height int, c color.Color) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(img, img.Bounds(), image.NewUniform(c), image.Point{}, draw.Src)
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDraw(t *testing.T) {
	red, green := color.RGBA{R: 255, A: 255}, color.RGBA{G: 255, A: 255}
	long := strings.Repeat("a very long note ", 20)
	var b bytes.Buffer
	err := sheet.Draw(&b, []sheet.Picture{
		{PNG: plain(t, 1280, 800, red), Title: "red", Note: long},
		{PNG: plain(t, 1280, 800, green), Title: "green"},
		{PNG: plain(t, 1280, 800, red)},
		{PNG: plain(t, 100, 400, green), Title: "narrow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := img.Bounds().Size(), image.Pt(24+3*664, 24+2*496); got != want {
		t.Errorf("size %v, want %v", got, want)
	}
	white := color.RGBA{255, 255, 255, 255}
	for _, c := range []struct {
		name string
		at   image.Point
		want color.RGBA
	}{
		{"margin", image.Pt(5, 5), white},
		{"first", image.Pt(24+320, 24+200), red},
		{"between", image.Pt(24+640+12, 200), white},
		{"second", image.Pt(24+664+320, 24+200), green},
		{"narrow one", image.Pt(24+320, 24+496+200), green},
		{"beside the narrow one", image.Pt(24+20, 24+496+200), white},
	} {
		if got := color.RGBAModel.Convert(img.At(c.at.X, c.at.Y)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if !inked(img, image.Rect(24, 430, 24+48, 462)) || inked(img, image.Rect(24+664+640, 430, 24+664+660, 496)) {
		t.Error("captions are missing, or run out of their place")
	}
}

// inked says whether anything dark is in a rectangle.
func inked(img image.Image, r image.Rectangle) bool {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y < 100 {
				return true
			}
		}
	}
	return false
}

func TestDrawRefuses(t *testing.T) {
	if err := sheet.Draw(&bytes.Buffer{}, nil); err == nil {
		t.Error("a sheet of nothing")
	}
	err := sheet.Draw(&bytes.Buffer{}, []sheet.Picture{{PNG: []byte("no picture"), Title: "broken"}})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}
