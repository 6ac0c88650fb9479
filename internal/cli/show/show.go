// Package show writes tables, ages and sizes for people.
package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Table writes aligned columns.
func Table(w io.Writer, rows ...[]string) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range rows {
		for i, cell := range r {
			// A cell of a guest's making must not reach the terminal as control
			// characters, nor move columns.
			r[i] = Plain(cell)
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush() // errors of a terminal have nowhere to go
}

// Plain replaces control characters.
func Plain(s string) string { return strings.Map(plain, s) }

// Text replaces control characters, but for ends of lines and tabs.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return plain(r)
	}, s)
}

func plain(r rune) rune {
	if r < ' ' || (r >= 0x7f && r < 0xa0) {
		return '·'
	}
	return r
}

// Ago says how long before now t was.
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Minute:
		return strconv.Itoa(max(int(d.Seconds()), 0)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + " d"
	}
}

// Bytes says a size in powers of 1,024.
func Bytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// Digest is the beginning of a digest, without its algorithm.
func Digest(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok {
		hex = digest
	}
	return hex[:min(12, len(hex))]
}
