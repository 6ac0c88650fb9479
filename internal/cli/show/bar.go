package show

import "strings"

// Bar is n of most as a bar of at most width characters, filled up with blanks.
// What is more than nothing is seen.
func Bar(n, most int64, width int) string {
	if n <= 0 || most <= 0 {
		return strings.Repeat(" ", width)
	}
	eighths := int(float64(min(n, most)) / float64(most) * float64(8*width))
	eighths = max(eighths, 1)
	bar := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		bar += string(rune('█' + 8 - rest)) // one eighth is ▏, seven are ▉
	}
	return bar + strings.Repeat(" ", width-(eighths+7)/8)
}
