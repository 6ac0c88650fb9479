package webm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// longest is how long a recording may be: a time beyond it is none.
const longest = 365 * 24 * time.Hour

// Recover takes up a file that Create began with the same configuration, and that
// was not finished, or not wholly: call Finish next. What comes after the last whole
// picture is lost.
func Recover(f File, cfg Config) (*Writer, error) {
	w, err := newWriter(f, cfg)
	if err != nil {
		return nil, err
	}
	var buf [wideSize]byte
	if _, err := f.ReadAt(buf[:4], 0); err != nil {
		return nil, fmt.Errorf("recover recording: %w", err)
	}
	if binary.BigEndian.Uint32(buf[:4]) != 0x1A45DFA3 {
		return nil, errors.New("recover recording: this is no WebM")
	}
	for at := w.pos; ; {
		next, err := w.scan(at)
		if err != nil {
			return nil, fmt.Errorf("recover recording: %w", err)
		}
		if next == 0 {
			return w, nil
		}
		at = next
	}
}

// scan looks at what is at a place and answers where the next thing is; 0: nothing
// more is of use.
func (w *Writer) scan(at int64) (next int64, err error) {
	const most = 24 // bytes of an element's head and what is looked at of its body
	var buf [most]byte
	n, err := w.f.ReadAt(buf[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	e, ok := element(buf[:n])
	if !ok {
		return 0, nil
	}
	body, size := buf[e.head:n], e.size
	switch {
	case e.id == idCluster:
		// Its pictures follow: it is one only with the first of them.
		t, ok := element(body)
		if !ok || t.id != idTimecode || t.size < 1 || t.size > 8 || int64(len(body)) < t.head+t.size {
			return 0, nil
		}
		ms := number(body[t.head : t.head+t.size])
		if ms > uint64(longest/timeUnit) || (w.any && time.Duration(ms)*timeUnit < w.last) {
			return 0, nil
		}
		first := at + e.head + t.head + t.size
		if ok, err := w.picture(first, part{from: at, at: time.Duration(ms) * timeUnit, last: w.last}); !ok {
			return 0, err
		}
		return w.pos, nil
	case e.id == idSimpleBlock && len(w.clusters) > 0 && size >= 4:
		if ok, err := w.picture(at, w.clusters[len(w.clusters)-1]); !ok {
			return 0, err
		}
		return w.pos, nil
	}
	return 0, nil
}

// picture takes in the picture at a place, of a cluster that may begin with it; not ok:
// it is not whole.
func (w *Writer) picture(at int64, of part) (ok bool, err error) {
	var buf [16]byte
	n, err := w.f.ReadAt(buf[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	e, ok := element(buf[:n])
	if !ok || e.id != idSimpleBlock || e.size < 5 || int64(n) < e.head+4 || e.size > 1<<32 {
		return false, nil
	}
	end := at + e.head + e.size
	if _, err := w.f.ReadAt(buf[15:], end-1); err != nil {
		if errors.Is(err, io.EOF) {
			return false, nil // cut short
		}
		return false, err
	}
	b := buf[e.head:]
	after := time.Duration(int16(binary.BigEndian.Uint16(b[1:3]))) * timeUnit
	key := b[3]&0x80 != 0
	if b[0] != 0x81 || after < 0 || (w.any && of.at+after < w.last) {
		return false, nil
	}
	if len(w.clusters) == 0 || w.clusters[len(w.clusters)-1].from != of.from {
		w.clusters = append(w.clusters, of)
		if key {
			w.cues = append(w.cues, cue{at: of.at + after, cluster: of.from - w.head})
		}
	}
	w.pos, w.last, w.any = end, of.at+after, true
	return true, nil
}

// elementHead is the beginning of an element.
type elementHead struct {
	id   uint32
	size int64 // of its body
	head int64 // its own length
}

// element reads the beginning of an element; not ok: there is none.
func element(b []byte) (e elementHead, ok bool) {
	if len(b) == 0 || b[0] == 0 {
		return e, false
	}
	n := bits.LeadingZeros8(b[0]) + 1
	if n > 4 || len(b) < n+1 || b[n] == 0 {
		return e, false
	}
	e.id = uint32(number(b[:n]))
	m := bits.LeadingZeros8(b[n]) + 1
	if len(b) < n+m {
		return e, false
	}
	size := number(b[n:n+m]) &^ (1 << (7 * m))
	e.size, e.head = int64(size), int64(n+m)
	return e, true
}

// number is up to 8 bytes, big endian.
func number(b []byte) (n uint64) {
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
