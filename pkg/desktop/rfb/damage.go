package rfb

import (
	"hash/maphash"
	"image"
)

// damageLog remembers where the last changes were.
type damageLog struct {
	entries []damageEntry // oldest first, consecutive numbers
}

type damageEntry struct {
	seq   uint64
	rects []image.Rectangle
}

const damageKept = 128

func (l *damageLog) add(seq uint64, rects []image.Rectangle) {
	if len(l.entries) == damageKept {
		copy(l.entries, l.entries[1:])
		l.entries = l.entries[:damageKept-1]
	}
	l.entries = append(l.entries, damageEntry{seq, append([]image.Rectangle(nil), rects...)})
}

// since returns what changed between two numbers.
func (l *damageLog) since(since, now uint64) ([]image.Rectangle, bool) {
	if since >= now {
		return nil, since == now
	}
	if len(l.entries) == 0 || l.entries[0].seq > since+1 {
		return nil, false
	}
	var rects []image.Rectangle
	for _, e := range l.entries {
		if e.seq > since {
			rects = append(rects, e.rects...)
		}
	}
	return rects, true
}

// fingerprint recognises the last frame of a connection in the first of the
// next, so that an unchanged screen keeps its number.
type fingerprint struct {
	seed  maphash.Seed
	sum   uint64
	size  image.Point
	valid bool
}

func newFingerprint() fingerprint { return fingerprint{seed: maphash.MakeSeed()} }

func (f *fingerprint) keep(img *image.RGBA) {
	f.sum, f.size, f.valid = maphash.Bytes(f.seed, img.Pix), img.Rect.Size(), true
}

func (f *fingerprint) matches(img *image.RGBA) bool {
	return f.valid && f.size == img.Rect.Size() && f.sum == maphash.Bytes(f.seed, img.Pix)
}
