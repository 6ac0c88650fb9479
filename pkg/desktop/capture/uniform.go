package capture

import (
	"bytes"
	"image"
)

// Shares of the most common colour, as Uniform measures them. A text screen of
// firmware has about 0.98, a console with a login prompt 0.99 and more, an X
// server without a client 1; a desktop with a picture behind it stays far below
// 0.9, one with a plain colour behind a panel and an icon or two at about 0.95.
const (
	BlankShare = 0.9995
	DrawnShare = 0.975
)

// Uniform returns the share of the most common colour, 0 to 1. It looks at a
// quarter of the pixels, and at the upper five bits of each channel.
func Uniform(img *image.RGBA) float64 {
	counts := make([]uint32, 1<<15)
	most, all := uint32(0), uint32(0)
	for y := 0; y < img.Rect.Dy(); y += 2 {
		row := img.Pix[y*img.Stride : y*img.Stride+4*img.Rect.Dx()]
		for len(row) >= 3 {
			c := int(row[0]>>3)<<10 | int(row[1]>>3)<<5 | int(row[2]>>3)
			counts[c]++
			most = max(most, counts[c])
			all++
			row = row[min(8, len(row)):]
		}
	}
	if all == 0 {
		return 1
	}
	return float64(most) / float64(all)
}

// Plain reports whether every pixel has the same colour. One that differs is
// enough: a text screen with a word on it is not plain.
func Plain(img *image.RGBA) bool {
	n := 4 * img.Rect.Dx()
	for y := range img.Rect.Dy() {
		row := img.Pix[y*img.Stride : y*img.Stride+n]
		if !bytes.Equal(row[4:], row[:n-4]) || !bytes.Equal(row[:4], img.Pix[:4]) {
			return false
		}
	}
	return true
}

// same tells whether two screens show the same within region; screens of
// different sizes do not. An empty region is the whole screen.
func same(a, b *image.RGBA, region image.Rectangle) bool {
	if a == b {
		return true
	}
	if a.Rect != b.Rect {
		return false
	}
	if region.Empty() {
		return bytes.Equal(a.Pix, b.Pix)
	}
	region = region.Intersect(a.Rect)
	for y := region.Min.Y; y < region.Max.Y; y++ {
		from, to := a.PixOffset(region.Min.X, y), a.PixOffset(region.Max.X-1, y)+4
		if !bytes.Equal(a.Pix[from:to], b.Pix[from:to]) {
			return false
		}
	}
	return true
}
