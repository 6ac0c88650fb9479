package demo

import (
	"image"
	"image/draw"
	"testing"
)

// TestShows: a few pixels of a colour are none.
func TestShows(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 200, 100))
	head := image.NewUniform(shopGreen)
	draw.Draw(img, image.Rect(0, 0, 200, 5), head, image.Point{}, draw.Src)
	if shows(img, shopGreen) {
		t.Error("1000 pixels are many")
	}
	draw.Draw(img, image.Rect(0, 0, 200, 6), head, image.Point{}, draw.Src)
	if !shows(img, shopGreen) {
		t.Error("1200 pixels are few")
	}
}
