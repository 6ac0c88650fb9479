package screen_test

import (
	"image"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guesthelper/screen"
)

// The expected timings are those of the standard; X.Org's cvt prints the same,
// but for a sync pulse of 1280x1024 that it begins one cell later.
func TestCVT(t *testing.T) {
	for _, want := range []screen.Mode{
		{800, 832, 912, 1024, 600, 603, 607, 624, 38_250_000},
		{1024, 1072, 1176, 1328, 768, 771, 775, 798, 63_500_000},
		{1280, 1352, 1480, 1680, 800, 803, 809, 831, 83_500_000},
		{1280, 1360, 1496, 1712, 1024, 1027, 1034, 1063, 109_000_000},
		{1600, 1712, 1880, 2160, 1200, 1203, 1207, 1245, 161_000_000},
		{1920, 2048, 2248, 2576, 1080, 1083, 1088, 1120, 173_000_000},
		{2560, 2752, 3024, 3488, 1440, 1443, 1448, 1493, 312_250_000},
	} {
		if diff := cmp.Diff(want, screen.CVT(want.Width, want.Height)); diff != "" {
			t.Errorf("%dx%d: %s", want.Width, want.Height, diff)
		}
	}
}

func TestCVTIsSoundForAnySize(t *testing.T) {
	for w := 64; w <= 8192; w += 61 {
		for _, h := range []int{64, 333, 768, 2160, 8192} {
			m := screen.CVT(w, h)
			if m.Width != w || m.Height != h || m.HSyncStart < w || m.HSyncEnd <= m.HSyncStart || m.HTotal < m.HSyncEnd ||
				m.VSyncStart < h || m.VSyncEnd <= m.VSyncStart || m.VTotal < m.VSyncEnd || m.ClockHz <= 0 {
				t.Fatalf("%dx%d: %+v", w, h, m)
			}
		}
	}
}

func TestToRGBA(t *testing.T) {
	dst := make([]byte, 8)
	screen.ToRGBA(dst, []byte{1, 2, 3, 0, 4, 5, 6, 9, 7, 7, 7, 7})
	if diff := cmp.Diff([]byte{3, 2, 1, 255, 6, 5, 4, 255}, dst); diff != "" {
		t.Error(diff)
	}
}

func TestBlend(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 2, 2))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	// Opaque red, nothing, half black, and one that lies outside.
	screen.Blend(img, []uint32{0xffff0000, 0, 0x80000000, 0xff00ff00}, image.Pt(0, 0), 1)
	want := []byte{255, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
	if diff := cmp.Diff(want, img.Pix); diff != "" {
		t.Error(diff)
	}
	screen.Blend(img, []uint32{0x80000000}, image.Pt(1, 1), 1)
	if got := img.Pix[12:15]; got[0] != 127 || got[2] != 127 {
		t.Errorf("half black on white is %v", got)
	}
	screen.Blend(img, []uint32{0xffffffff}, image.Pt(-1, 5), 1)
	screen.Blend(img, []uint32{0xffffffff}, image.Pt(0, 0), 0)
}
