// Package viewing measures what a person sees of a desktop: pages in Chromium that look
// at a window in the guest (glass.py) or at a screen that is drawn here.
package viewing

import (
	"context"
	_ "embed" // glass.py
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deskfork/deskfork/test/browser"
)

// glass is the program of the guest.
//
//go:embed glass.py
var glass []byte

// Meter is Chromium with pages that are measured.
type Meter struct{ p *browser.Process }

// Open starts it.
func Open(ctx context.Context) (*Meter, error) {
	file, err := browser.File("test/bench/viewing/meter.js")
	if err != nil {
		return nil, err
	}
	p, err := browser.Run(ctx, file, nil)
	if err != nil {
		return nil, err
	}
	return &Meter{p}, nil
}

// step is what meter.js is told.
type step struct {
	Do    string `json:"do"`
	Page  string `json:"page,omitempty"`
	URL   string `json:"url,omitempty"`
	MS    int64  `json:"ms,omitempty"`
	Count int    `json:"count,omitempty"`
}

func (m *Meter) do(s step, v any) error {
	if err := m.p.Say(s); err != nil {
		return err
	}
	var got struct {
		Value json.RawMessage `json:"value"`
		Error string          `json:"error"`
	}
	if err := m.p.Next(&got); err != nil {
		return err
	}
	if got.Error != "" {
		return fmt.Errorf("%s on page %s: %s", s.Do, s.Page, got.Error)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(got.Value, v)
}

// Page opens a page; it returns how long the first picture took from the page's begin.
func (m *Meter) Page(name, url string) (time.Duration, error) {
	var ms float64
	err := m.do(step{Do: "open", Page: name, URL: url}, &ms)
	return millis(ms), err
}

// Take takes control on a page of the viewer.
func (m *Meter) Take(page string) error { return m.do(step{Do: "take", Page: page}, nil) }

// Leave closes a page.
func (m *Meter) Leave(page string) error { return m.do(step{Do: "close", Page: page}, nil) }

// Sample is what came to a page in a while.
type Sample struct {
	Bytes int64        `json:"bytes"`
	Seen  [][2]float64 `json:"seen"` // a number, and when it was shown, in milliseconds since 1970
}

// Look watches a page for so long.
func (m *Meter) Look(page string, d time.Duration) (s Sample, err error) {
	err = m.do(step{Do: "sample", Page: page, MS: d.Milliseconds()}, &s)
	return s, err
}

// Clicks presses the mouse on a page, and returns how long the picture took each time.
func (m *Meter) Clicks(page string, n int) ([]time.Duration, error) {
	var ms []float64
	err := m.do(step{Do: "clicks", Page: page, Count: n}, &ms)
	var out []time.Duration
	for _, v := range ms {
		out = append(out, millis(v))
	}
	return out, err
}

// Close ends it.
func (m *Meter) Close() error {
	if err := m.p.Say(step{Do: "end"}); err != nil {
		return err
	}
	return m.p.Wait(nil)
}

func millis(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

// numbers is how many values a number on the screen has.
const numbers = 1 << 12

// Share is how many of the numbers from the first to the last that were seen were seen,
// and how many of them there are.
func (s Sample) Share() (seen, drawn int) {
	if len(s.Seen) == 0 {
		return 0, 0
	}
	at, first, last := 0, 0, 0
	all := map[int]bool{0: true}
	for i, v := range s.Seen[1:] {
		// A number behind the last one is a picture that came late, or was misread.
		by := (int(v[0])-int(s.Seen[i][0])+numbers+numbers/2)%numbers - numbers/2
		at += by
		first, last = min(first, at), max(last, at)
		all[at] = true
	}
	return len(all), last - first + 1
}

// Lags are the times from when numbers were drawn to when they were shown.
func (s Sample) Lags(drawn map[int]time.Time) []time.Duration {
	var out []time.Duration
	for _, v := range s.Seen {
		if at, ok := drawn[int(v[0])]; ok {
			out = append(out, time.UnixMicro(int64(v[1]*1000)).Sub(at))
		}
	}
	slices.Sort(out)
	return out
}
