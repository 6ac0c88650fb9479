package sheet_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/deskfork/deskfork/internal/sheet"
)

func TestTree(t *testing.T) {
	red, green := color.RGBA{R: 255, A: 255}, color.RGBA{G: 255, A: 255}
	var b bytes.Buffer
	err := sheet.Tree(&b, []sheet.Node{
		{Picture: sheet.Picture{Title: "image"}},
		{Picture: sheet.Picture{Title: "parent", PNG: plain(t, 1280, 800, red)}, Depth: 1},
		{Picture: sheet.Picture{Title: "child", PNG: plain(t, 1280, 800, green), Note: "of its own: 20 MiB"}, Depth: 2},
		{Picture: sheet.Picture{Title: "another", PNG: plain(t, 1280, 800, green)}, Depth: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	grey, line := color.RGBA{0xe4, 0xe4, 0xe4, 255}, color.RGBA{0x80, 0x80, 0x80, 255}
	for _, c := range []struct {
		name string
		at   image.Point
		want color.RGBA
	}{
		{"box of the image", image.Pt(24+128, 24+80), grey},
		{"picture of the parent", image.Pt(24+96+128, 24+184+80), red},
		{"picture of the child", image.Pt(24+192+128, 24+2*184+80), green},
		{"line from the image to its second", image.Pt(24+48+1, 24+3*184), line},
		{"line to the child", image.Pt(24+192-4, 24+2*184+81), line},
	} {
		r, g, bl, _ := img.At(c.at.X, c.at.Y).RGBA()
		if got := (color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(bl >> 8), 255}); got != c.want {
			t.Errorf("%s at %v is %v, want %v", c.name, c.at, got, c.want)
		}
	}
}

// TestTreeWords: the paper is as wide as its longest line, whose last letter is there.
func TestTreeWords(t *testing.T) {
	const note = "removed, needed, its own: 1023.9 MiB memory, 1023.9 MiB diskM"
	var b bytes.Buffer
	if err := sheet.Tree(&b, []sheet.Node{{}, {Picture: sheet.Picture{Title: "fork", Note: note}, Depth: 1}}); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	const letter = 12 // pixels
	left := 24 + 96 + 256 + 24
	if got, want := img.Bounds().Dx(), left+len(note)*letter+24; got != want {
		t.Errorf("the paper is %d wide, want %d", got, want)
	}
	last := image.Rect(left+(len(note)-1)*letter, 24+184, left+len(note)*letter, 24+184+160)
	ink := 0
	for y := last.Min.Y; y < last.Max.Y; y++ {
		for x := last.Min.X; x < last.Max.X; x++ {
			if r, _, _, _ := img.At(x, y).RGBA(); r < 0x8000 {
				ink++
			}
		}
	}
	if ink == 0 {
		t.Error("the last letter of the note is missing")
	}
}

func TestTreeRefuses(t *testing.T) {
	for name, nodes := range map[string][]sheet.Node{
		"nobody":           nil,
		"a child first":    {{Depth: 1}},
		"a child too deep": {{}, {Depth: 2}},
		"no picture":       {{Picture: sheet.Picture{PNG: []byte("GIF89a")}}},
	} {
		if err := sheet.Tree(new(bytes.Buffer), nodes); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
}
