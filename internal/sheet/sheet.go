// Package sheet draws pictures side by side, with captions, onto one.
package sheet

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"unicode/utf8"

	scale "golang.org/x/image/draw"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/font/inconsolata"
	"golang.org/x/image/math/fixed"
)

// Picture is one of a sheet.
type Picture struct {
	PNG   []byte
	Title string
	Note  string // in smaller letters below the title
}

// All measures are pixels.
const (
	columns   = 3
	cellWidth = 640
	gap       = 24
	caption   = 72
	titleSize = 32 // height of a line
	noteSize  = 24
)

// Draw writes a PNG of all pictures, three in a row. Those of the first one's
// shape fill their place; others keep their own.
func Draw(w io.Writer, pictures []Picture) error {
	if len(pictures) == 0 {
		return errors.New("a sheet needs a picture")
	}
	images := make([]image.Image, len(pictures))
	for i, p := range pictures {
		img, err := png.Decode(bytes.NewReader(p.PNG))
		if err != nil {
			return fmt.Errorf("read the picture of %q: %w", p.Title, err)
		}
		images[i] = img
	}
	first := images[0].Bounds()
	cell := image.Pt(cellWidth, max(1, cellWidth*first.Dy()/max(1, first.Dx())))
	across := min(columns, len(pictures))
	down := (len(pictures) + columns - 1) / columns
	paper := image.NewRGBA(image.Rect(0, 0, gap+across*(cell.X+gap), gap+down*(cell.Y+caption+gap)))
	draw.Draw(paper, paper.Bounds(), image.White, image.Point{}, draw.Src)
	for i, img := range images {
		at := image.Pt(gap+i%columns*(cell.X+gap), gap+i/columns*(cell.Y+caption+gap))
		scale.CatmullRom.Scale(paper, fit(at, cell, img.Bounds()), img, img.Bounds(), scale.Src, nil)
		below := at.Add(image.Pt(0, cell.Y+6))
		write(paper, inconsolata.Bold8x16, below, titleSize, cell.X, pictures[i].Title)
		write(paper, inconsolata.Regular8x16, below.Add(image.Pt(0, titleSize+2)), noteSize, cell.X, pictures[i].Note)
	}
	if err := png.Encode(w, paper); err != nil {
		return fmt.Errorf("write the sheet: %w", err)
	}
	return nil
}

// fit is the largest rectangle of a shape in the middle of a cell.
func fit(at, cell image.Point, shape image.Rectangle) image.Rectangle {
	size := cell
	if size.X*shape.Dy() > size.Y*shape.Dx() {
		size.X = size.Y * shape.Dx() / shape.Dy()
	} else {
		size.Y = size.X * shape.Dy() / max(1, shape.Dx())
	}
	at = at.Add(cell.Sub(size).Div(2))
	return image.Rectangle{Min: at, Max: at.Add(size)}
}

// long is how wide a line is that write magnifies to a height.
func long(f *basicfont.Face, height int, text string) int {
	return (utf8.RuneCountInString(text)*f.Advance*height + f.Height - 1) / f.Height
}

// write writes one line with its top left corner at a place, magnified to a height
// and cut to a width.
//
//nolint:revive // each is another thing
func write(dst draw.Image, f *basicfont.Face, at image.Point, height, width int, text string) {
	letters := []rune(text)
	letters = letters[:min(len(letters), width*f.Height/height/f.Advance)]
	line := image.NewGray(image.Rect(0, 0, f.Advance*max(1, len(letters)), f.Height))
	draw.Draw(line, line.Bounds(), image.White, image.Point{}, draw.Src)
	d := font.Drawer{Dst: line, Src: image.NewUniform(color.Gray{Y: 0x1c}), Face: f, Dot: fixed.P(0, f.Ascent)}
	d.DrawString(string(letters))
	place := image.Rectangle{Min: at, Max: at.Add(image.Pt(line.Rect.Dx()*height/f.Height, height))}
	scale.CatmullRom.Scale(dst, place, line, line.Bounds(), scale.Src, nil)
}
