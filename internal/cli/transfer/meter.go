package transfer

import (
	"fmt"
	"io"
	"time"

	"github.com/deskfork/deskfork/internal/cli/show"
)

// meterEvery is how often a meter is drawn.
const meterEvery = 200 * time.Millisecond

// meter shows how far a copy is, on a terminal only.
type meter struct {
	w     io.Writer // nil: nothing is shown
	now   func() time.Time
	begun time.Time
	drawn time.Time
	n     int64
	total int64 // of what will come; 0: not known
}

func newMeter(w io.Writer, now func() time.Time) *meter {
	if now == nil {
		now = time.Now
	}
	begun := now()
	return &meter{w: w, now: now, begun: begun, drawn: begun}
}

// reader counts what is read of r.
func (m *meter) reader(r io.Reader) io.Reader { return &metered{m: m, r: r} }

type metered struct {
	m *meter
	r io.Reader
}

func (r *metered) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.m.count(n)
	return n, err
}

// writer counts what is written to w.
func (m *meter) writer(w io.Writer) io.Writer { return &meteredWriter{m: m, w: w} }

type meteredWriter struct {
	m *meter
	w io.Writer
}

func (w *meteredWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.m.count(n)
	return n, err
}

func (m *meter) count(n int) {
	m.n += int64(n)
	if now := m.now(); now.Sub(m.drawn) >= meterEvery {
		m.drawn = now
		m.draw("\r")
	}
}

func (m *meter) draw(begin string) {
	if m.w == nil {
		return
	}
	per := float64(m.n) / max(m.now().Sub(m.begun).Seconds(), 0.001)
	of := ""
	if m.total > 0 {
		of = fmt.Sprintf(" of %s (%d %%)", show.Bytes(m.total), 100*min(m.n, m.total)/m.total)
	}
	fmt.Fprintf(m.w, "%s%s%s, %s/s\x1b[K", begin, show.Bytes(m.n), of, show.Bytes(int64(per)))
}

// done ends the line of what was shown.
func (m *meter) done() {
	if m.w != nil && m.drawn != m.begun {
		m.draw("\r")
		fmt.Fprintln(m.w)
	}
}
