package screen

import "math"

// Mode is the timing of one screen size, as VESA's Coordinated Video Timings
// standard 1.1 derives it. Horizontal values are pixels, vertical ones lines.
type Mode struct {
	Width, HSyncStart, HSyncEnd, HTotal  int
	Height, VSyncStart, VSyncEnd, VTotal int
	ClockHz                              int // pixel clock
}

// Constants of CVT 1.1, section 3.
const (
	cvtCellGran    = 8     // pixels that horizontal timings are multiples of
	cvtMinVPorch   = 3     // lines
	cvtMinVBPorch  = 6     // lines
	cvtMinVSyncUs  = 550.0 // microseconds of sync and back porch
	cvtHSyncPct    = 8     // of a line
	cvtC           = 30.0  // C' of the blanking formula
	cvtM           = 300.0 // M'
	cvtMinBlankPct = 20.0
	cvtClockStepHz = 250_000
	refreshHz      = 60.0
)

// CVT computes the mode for a size at 60 Hz. The width may be any number of
// pixels: only its blanking is rounded to cells of 8.
func CVT(width, height int) Mode {
	period := (1/refreshHz*1e6 - cvtMinVSyncUs) / float64(height+cvtMinVPorch) // of a line, µs
	vsync := vsyncLines(width, height)
	syncBack := max(int(cvtMinVSyncUs/period)+1, vsync+cvtMinVBPorch)
	vtotal := height + syncBack + cvtMinVPorch

	blankPct := max(cvtC-cvtM*period/1000, cvtMinBlankPct)
	active := float64(width)
	hblank := int(math.Floor(active*blankPct/(100-blankPct)/(2*cvtCellGran))) * 2 * cvtCellGran
	htotal := width + hblank
	hsync := max(cvtCellGran, htotal*cvtHSyncPct/100/cvtCellGran*cvtCellGran)
	hsyncEnd := width + hblank/2

	clock := int(float64(htotal)/period*1e6/cvtClockStepHz) * cvtClockStepHz
	return Mode{
		Width: width, HSyncStart: hsyncEnd - hsync, HSyncEnd: hsyncEnd, HTotal: htotal,
		Height: height, VSyncStart: height + cvtMinVPorch, VSyncEnd: height + cvtMinVPorch + vsync, VTotal: vtotal,
		ClockHz: clock,
	}
}

// vsyncLines encodes the aspect ratio (CVT 1.1, table 3-2).
func vsyncLines(w, h int) int {
	for _, a := range []struct{ x, y, lines int }{{4, 3, 4}, {16, 9, 5}, {16, 10, 6}, {5, 4, 7}, {15, 9, 7}} {
		if h%a.y == 0 && h*a.x/a.y == w {
			return a.lines
		}
	}
	return 10
}
