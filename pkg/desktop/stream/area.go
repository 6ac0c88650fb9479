package stream

import "image"

// areaSide is the side of an area's blocks, in pixels.
const areaSide = 64

// area is a part of a screen, in blocks.
type area struct {
	size   image.Point
	cols   int
	marked []bool
	left   int // how many are marked
}

// reset empties an area of a screen of the given size.
func (a *area) reset(size image.Point) {
	a.size, a.cols, a.left = size, (size.X+areaSide-1)/areaSide, 0
	a.marked = make([]bool, a.cols*((size.Y+areaSide-1)/areaSide))
}

// add puts the blocks under rectangles into the area.
func (a *area) add(rects ...image.Rectangle) {
	for _, r := range rects {
		r = r.Intersect(image.Rectangle{Max: a.size})
		if r.Empty() {
			continue
		}
		for y := r.Min.Y / areaSide; y <= (r.Max.Y-1)/areaSide; y++ {
			for x := r.Min.X / areaSide; x <= (r.Max.X-1)/areaSide; x++ {
				if i := y*a.cols + x; !a.marked[i] {
					a.marked[i] = true
					a.left++
				}
			}
		}
	}
}

// take removes up to n blocks, from the top.
func (a *area) take(n int) []image.Rectangle {
	var out []image.Rectangle
	for i := 0; i < len(a.marked) && n > 0 && a.left > 0; i++ {
		if !a.marked[i] {
			continue
		}
		a.marked[i] = false
		a.left--
		n--
		at := image.Pt(i%a.cols, i/a.cols).Mul(areaSide)
		out = append(out, image.Rectangle{Min: at, Max: at.Add(image.Pt(areaSide, areaSide))}.Intersect(image.Rectangle{Max: a.size}))
	}
	return out
}
