package screen

import "image"

// ToRGBA converts the server's little-endian XRGB pixels into opaque RGBA. dst
// holds whole pixels; src is at least as long.
func ToRGBA(dst, src []byte) {
	src = src[:len(dst)]
	for i := 0; i+4 <= len(dst); i += 4 {
		s, d := src[i:i+4:i+4], dst[i:i+4:i+4]
		d[0], d[1], d[2], d[3] = s[2], s[1], s[0], 0xff
	}
}

// Blend draws premultiplied ARGB pixels in rows of width onto img at a point.
func Blend(img *image.RGBA, argb []uint32, at image.Point, width int) {
	for i, p := range argb {
		if width <= 0 {
			return
		}
		pt := at.Add(image.Pt(i%width, i/width))
		if !pt.In(img.Rect) {
			continue
		}
		rest := 255 - p>>24
		d := img.Pix[img.PixOffset(pt.X, pt.Y):]
		d[0] = byte(min(255, p>>16&0xff+uint32(d[0])*rest/255))
		d[1] = byte(min(255, p>>8&0xff+uint32(d[1])*rest/255))
		d[2] = byte(min(255, p&0xff+uint32(d[2])*rest/255))
	}
}
