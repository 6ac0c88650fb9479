//go:build cgo

package videotest

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"math/rand/v2"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// Screen draws something like a desktop: a plain background, a window of text, a
// panel; seed decides the words.
func Screen(width, height int, seed uint64) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	Fill(img, img.Rect, color.RGBA{40, 60, 90, 255})
	window := image.Rect(width/8, height/8, width*7/8, height*7/8)
	Fill(img, window, color.RGBA{250, 250, 250, 255})
	Fill(img, image.Rect(window.Min.X, window.Min.Y, window.Max.X, window.Min.Y+20), color.RGBA{200, 80, 40, 255})
	Text(img, window.Inset(24), seed)
	return img
}

// Fill paints a rectangle.
func Fill(img *image.RGBA, r image.Rectangle, c color.RGBA) {
	draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
}

// Text writes lines of words into a rectangle.
func Text(img *image.RGBA, r image.Rectangle, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	sub, ok := img.SubImage(r).(*image.RGBA)
	if !ok {
		return
	}
	for y := r.Min.Y + 13; y < r.Max.Y; y += 14 {
		line := make([]byte, r.Dx()/7)
		for i := range line {
			line[i] = ' '
			if rng.IntN(6) > 0 {
				line[i] = byte('a' + rng.IntN(26))
			}
		}
		d := font.Drawer{Dst: sub, Src: image.Black, Face: basicfont.Face7x13, Dot: fixed.P(r.Min.X, y)}
		d.DrawBytes(line)
	}
}

// Scroll moves a rectangle's pixels up by n rows.
func Scroll(img *image.RGBA, r image.Rectangle, n int) {
	for y := r.Min.Y; y+n < r.Max.Y; y++ {
		to, from := img.PixOffset(r.Min.X, y), img.PixOffset(r.Min.X, y+n)
		copy(img.Pix[to:to+4*r.Dx()], img.Pix[from:from+4*r.Dx()])
	}
}

// PSNR is how near two pictures of the same bounds are, in dB, over colours; the
// same is 99.
func PSNR(a, b *image.RGBA) float64 {
	sum, n := 0.0, 0
	for y := a.Rect.Min.Y; y < a.Rect.Max.Y; y++ {
		for x := a.Rect.Min.X; x < a.Rect.Max.X; x++ {
			p, q := a.Pix[a.PixOffset(x, y):], b.Pix[b.PixOffset(x, y):]
			for c := range 3 {
				d := float64(p[c]) - float64(q[c])
				sum += d * d
				n++
			}
		}
	}
	if sum == 0 {
		return 99
	}
	return 10 * math.Log10(255*255*float64(n)/sum)
}
