package desktop

import (
	"fmt"
	"image"
)

// View says how an image shows the screen: which part, and how wide the image
// is. The zero View shows the whole screen pixel by pixel. The same View makes
// an image and maps a point of that image back, so the two always agree.
type View struct {
	Region image.Rectangle // part of the screen, in screen pixels; empty: all of it
	Width  int             // width of the image in pixels; 0: as wide as Region
}

// Shown returns the part of a screen of the given size that the view shows.
// ErrOutside when Region is not wholly on the screen.
func (v View) Shown(screen image.Point) (image.Rectangle, error) {
	all := image.Rectangle{Max: screen}
	if v.Region.Empty() {
		return all, nil
	}
	if !v.Region.In(all) {
		return image.Rectangle{}, fmt.Errorf("show %v of a %dx%d screen: %w", v.Region, screen.X, screen.Y, ErrOutside)
	}
	return v.Region, nil
}

// Size returns the size of the image in pixels; its height keeps the region's
// proportion and is at least 1.
func (v View) Size(screen image.Point) (image.Point, error) {
	r, err := v.Shown(screen)
	if err != nil {
		return image.Point{}, err
	}
	if v.Width < 0 {
		return image.Point{}, fmt.Errorf("show a screen %d pixels wide: the width must be positive", v.Width)
	}
	if v.Width == 0 || r.Empty() {
		return r.Size(), nil
	}
	h := (2*r.Dy()*v.Width + r.Dx()) / (2 * r.Dx())
	return image.Pt(v.Width, max(h, 1)), nil
}

// ToScreen maps the centre of an image pixel to the screen pixel below it.
// ErrOutside when p is not in the image.
func (v View) ToScreen(screen, p image.Point) (image.Point, error) {
	r, err := v.Shown(screen)
	if err != nil {
		return image.Point{}, err
	}
	size, err := v.Size(screen)
	if err != nil {
		return image.Point{}, err
	}
	if !p.In(image.Rectangle{Max: size}) {
		return image.Point{}, fmt.Errorf("point (%d,%d) of a %dx%d image: %w", p.X, p.Y, size.X, size.Y, ErrOutside)
	}
	return r.Min.Add(image.Pt(centre(p.X, size.X, r.Dx()), centre(p.Y, size.Y, r.Dy()))), nil
}

// FromScreen maps the centre of a screen pixel to the image pixel that shows
// it. ErrOutside when the view does not show p.
func (v View) FromScreen(screen, p image.Point) (image.Point, error) {
	r, err := v.Shown(screen)
	if err != nil {
		return image.Point{}, err
	}
	size, err := v.Size(screen)
	if err != nil {
		return image.Point{}, err
	}
	if !p.In(r) {
		return image.Point{}, fmt.Errorf("screen point (%d,%d) in a view of %v: %w", p.X, p.Y, r, ErrOutside)
	}
	q := p.Sub(r.Min)
	return image.Pt(centre(q.X, r.Dx(), size.X), centre(q.Y, r.Dy(), size.Y)), nil
}

// centre maps the centre of pixel i of n onto m pixels.
func centre(i, n, m int) int {
	return (2*i + 1) * m / (2 * n)
}
