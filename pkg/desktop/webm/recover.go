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
	of := part{from: at, last: w.last}
	switch {
	case e.id == idCluster:
		// Its pictures follow: it is one only with the first of them.
		var long int64
		if of.at, long, ok = w.begins(buf[e.head:n]); !ok {
			return 0, nil
		}
		at += e.head + long
	case e.id == idSimpleBlock && len(w.clusters) > 0:
		of = w.clusters[len(w.clusters)-1]
	default:
		return 0, nil
	}
	if ok, err := w.picture(at, of); !ok {
		return 0, err
	}
	return w.pos, nil
}

// begins reads the time that a cluster begins with, and how many bytes that takes; not
// ok: it is none that could follow.
func (w *Writer) begins(body []byte) (at time.Duration, long int64, ok bool) {
	t, ok := element(body)
	if !ok || t.id != idTimecode || t.size < 1 || t.size > 8 || int64(len(body)) < t.head+t.size {
		return 0, 0, false
	}
	ms := number(body[t.head : t.head+t.size])
	if ms > uint64(longest/timeUnit) || (w.any && time.Duration(ms)*timeUnit < w.last) {
		return 0, 0, false
	}
	return time.Duration(ms) * timeUnit, t.head + t.size, true
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
	if whole, err := w.reaches(end); !whole {
		return false, err
	}
	b := buf[e.head:]
	after := time.Duration(int16(binary.BigEndian.Uint16(b[1:3]))) * timeUnit
	key := b[3]&0x80 != 0
	if b[0] != 0x81 || after < 0 || (w.any && of.at+after < w.last) {
		return false, nil
	}
	w.add(of, of.at+after, key)
	w.pos, w.last, w.any = end, of.at+after, true
	return true, nil
}

// add takes in the cluster of a picture, unless it is known, and its cue.
func (w *Writer) add(of part, at time.Duration, key bool) {
	if len(w.clusters) > 0 && w.clusters[len(w.clusters)-1].from == of.from {
		return
	}
	w.clusters = append(w.clusters, of)
	if key {
		w.cues = append(w.cues, cue{at: at, cluster: of.from - w.head})
	}
}

// reaches says whether the file is so long.
func (w *Writer) reaches(end int64) (bool, error) {
	_, err := w.f.ReadAt(make([]byte, 1), end-1)
	if errors.Is(err, io.EOF) {
		return false, nil // cut short
	}
	return err == nil, err
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
