// Package replay keeps the tail of a byte stream until its receiver is known to
// have it, so that the stream goes on at the very byte where a link broke.
package replay

import "fmt"

// Buffer is what was sent and may have to be sent again. Offsets count from the
// receiver's first byte. It is for one goroutine; its zero value is ready.
type Buffer struct {
	base   int64 // offset of tail[0]
	tail   []byte
	joined bool
}

// GapError says that a receiver asks for bytes that it had confirmed.
type GapError struct{ Have, Want int64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("byte %d is asked for again after %d bytes were confirmed", e.Want, e.Have)
}

// Append adds bytes that are about to be sent.
func (b *Buffer) Append(p []byte) { b.tail = append(b.tail, p...) }

// Len is how many bytes are not confirmed.
func (b *Buffer) Len() int { return len(b.tail) }

// Confirm says that the receiver has all bytes below to.
func (b *Buffer) Confirm(to int64) {
	if n := min(to-b.base, int64(len(b.tail))); n > 0 {
		b.base += n
		b.tail = b.tail[:copy(b.tail, b.tail[n:])]
	}
}

// Join begins a link whose receiver has the bytes below have, and returns what is
// to be sent over it first; the result is valid until the next call. A receiver
// that somebody else has fed meanwhile has more than was ever sent from here:
// that counts as had, and the stream goes on behind it.
func (b *Buffer) Join(have int64) ([]byte, error) {
	switch {
	case !b.joined:
		b.joined, b.base = true, have
	case have < b.base:
		return nil, &GapError{Have: b.base, Want: have}
	case have > b.base+int64(len(b.tail)):
		b.base, b.tail = have, b.tail[:0]
	default:
		b.Confirm(have)
	}
	return b.tail, nil
}
