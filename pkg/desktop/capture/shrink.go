package capture

import "image"

// shrink scales img down to size: every pixel becomes the mean of the area that
// it covers, parts of pixels by their part. size is not larger than img.
func shrink(img *image.RGBA, size image.Point) *image.RGBA {
	sw, sh := img.Rect.Dx(), img.Rect.Dy()
	out := image.NewRGBA(image.Rectangle{Max: size})
	s := shrinker{img: img, columns: spans(sw, size.X), row: make([]uint32, 3*size.X), at: -1}
	sum := make([]uint32, 3*size.X)
	for y, span := range spans(sh, size.Y) {
		clear(sum)
		for i, weight := range span.weights {
			for x, v := range s.shrunk(span.first + i) {
				sum[x] += v * weight
			}
		}
		p := out.Pix[y*out.Stride:]
		for x := range size.X {
			for c := range 3 {
				p[4*x+c] = byte((sum[3*x+c]/uint32(sh) + 128) >> 8)
			}
			p[4*x+3] = 0xff
		}
	}
	return out
}

// span is the source pixels that one pixel covers, in parts of the source's
// length: the weights of one span add up to it.
type span struct {
	first   int
	weights []uint32
}

// spans divides n source pixels among m: seen in units of 1/m pixel, target
// pixel i covers [i*n, (i+1)*n).
func spans(n, m int) []span {
	all := make([]span, m)
	for i := range all {
		from, to := i*n, (i+1)*n
		s := span{first: from / m}
		for p := s.first; p*m < to; p++ {
			s.weights = append(s.weights, uint32(min(to, (p+1)*m)-max(from, p*m)))
		}
		all[i] = s
	}
	return all
}

// shrinker shrinks rows, remembering the last.
type shrinker struct {
	img     *image.RGBA
	columns []span
	row     []uint32 // 8.8 fixed point, three a pixel
	at      int      // which row that is
}

func (s *shrinker) shrunk(y int) []uint32 {
	if s.at == y {
		return s.row
	}
	s.at = y
	width := uint64(s.img.Rect.Dx())
	inverse := (1<<40 + width - 1) / width // v*256/width = v*inverse>>32
	src := s.img.Pix[y*s.img.Stride:]
	for x, c := range s.columns {
		var r, g, b uint32
		p := src[4*c.first:]
		for i, w := range c.weights {
			q := p[4*i : 4*i+3]
			r += uint32(q[0]) * w
			g += uint32(q[1]) * w
			b += uint32(q[2]) * w
		}
		o := s.row[3*x : 3*x+3]
		o[0] = uint32(uint64(r) * inverse >> 32)
		o[1] = uint32(uint64(g) * inverse >> 32)
		o[2] = uint32(uint64(b) * inverse >> 32)
	}
	return s.row
}
