package desktop_test

import (
	"errors"
	"image"
	"testing"

	"github.com/deskfork/deskfork/pkg/desktop"
)

func TestViewToScreen(t *testing.T) {
	screen := image.Pt(1280, 800)
	region := image.Rect(100, 50, 300, 150)
	tests := []struct {
		name string
		view desktop.View
		p    image.Point
		want image.Point
	}{
		{"identity origin", desktop.View{}, image.Pt(0, 0), image.Pt(0, 0)},
		{"identity last", desktop.View{}, image.Pt(1279, 799), image.Pt(1279, 799)},
		{"half origin is the middle of its block", desktop.View{Width: 640}, image.Pt(0, 0), image.Pt(1, 1)},
		{"half last", desktop.View{Width: 640}, image.Pt(639, 399), image.Pt(1279, 799)},
		{"four fifths origin", desktop.View{Width: 1024}, image.Pt(0, 0), image.Pt(0, 0)},
		{"four fifths last", desktop.View{Width: 1024}, image.Pt(1023, 639), image.Pt(1279, 799)},
		{"doubled", desktop.View{Width: 2560}, image.Pt(2559, 1599), image.Pt(1279, 799)},
		{"doubled origin", desktop.View{Width: 2560}, image.Pt(1, 1), image.Pt(0, 0)},
		{"region origin", desktop.View{Region: region}, image.Pt(0, 0), image.Pt(100, 50)},
		{"region last", desktop.View{Region: region}, image.Pt(199, 99), image.Pt(299, 149)},
		{"region scaled last", desktop.View{Region: region, Width: 100}, image.Pt(99, 49), image.Pt(299, 149)},
		{"one pixel wide", desktop.View{Width: 1}, image.Pt(0, 0), image.Pt(640, 400)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.view.ToScreen(screen, tt.p)
			if err != nil || got != tt.want {
				t.Errorf("ToScreen(%v) = %v, %v; want %v", tt.p, got, err, tt.want)
			}
		})
	}
}

func TestViewOutside(t *testing.T) {
	screen := image.Pt(1280, 800)
	tests := []struct {
		name string
		view desktop.View
		p    image.Point
	}{
		{"right of the screen", desktop.View{}, image.Pt(1280, 0)},
		{"below the screen", desktop.View{}, image.Pt(0, 800)},
		{"negative", desktop.View{}, image.Pt(-1, 0)},
		{"right of the image", desktop.View{Width: 640}, image.Pt(640, 0)},
		{"region leaves the screen", desktop.View{Region: image.Rect(1200, 0, 1300, 10)}, image.Pt(0, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.view.ToScreen(screen, tt.p); !errors.Is(err, desktop.ErrOutside) {
				t.Errorf("ToScreen(%v) = %v, %v; want ErrOutside", tt.p, got, err)
			}
		})
	}
	if _, err := (desktop.View{Width: -1}).ToScreen(screen, image.Pt(0, 0)); err == nil {
		t.Error("a negative width was accepted")
	}
}

// Every image pixel maps to a screen pixel that maps back to it, as long as
// the image is no larger than what it shows.
func TestViewRoundTrip(t *testing.T) {
	screen := image.Pt(1366, 768)
	for _, width := range []int{0, 1, 7, 333, 1024, 1365, 1366} {
		v := desktop.View{Width: width}
		size, err := v.Size(screen)
		if err != nil {
			t.Fatal(err)
		}
		for x := range size.X {
			p := image.Pt(x, x%size.Y)
			s, err := v.ToScreen(screen, p)
			if err != nil {
				t.Fatal(err)
			}
			back, err := v.FromScreen(screen, s)
			if err != nil || back != p {
				t.Fatalf("width %d: %v -> %v -> %v, %v", width, p, s, back, err)
			}
		}
	}
}
