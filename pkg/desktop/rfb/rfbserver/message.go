package rfbserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Types of client messages.
const (
	msgSetPixelFormat = 0
	msgSetEncodings   = 2
	msgUpdateRequest  = 3
	msgKey            = 4
	msgPointer        = 5
	msgCut            = 6
	msgContinuous     = 150
	msgFence          = 248
	msgSetDesktopSize = 251
	msgQEMU           = 255

	qemuKey = 0
)

// Bounds of what a client may send.
const (
	maxEncodings = 1024
	maxCut       = 1 << 20 // bytes
	maxFence     = 64      // bytes
	maxScreens   = 16
)

// ErrProtocol says that a client broke the protocol, or asked for what is beyond it.
var ErrProtocol = errors.New("malformed rfb message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// message is one message of a client: one of the types below.
type message any

type (
	setEncodings  []int32
	updateRequest struct {
		incremental bool
		rect        image.Rectangle
	}
	keyEvent struct {
		key  desktop.Key
		down bool
	}
	pointerEvent struct {
		at      image.Point
		buttons desktop.Button
	}
	cutText    struct{ text string }
	continuous struct {
		on   bool
		rect image.Rectangle
	}
	fence struct {
		flags   uint32
		payload []byte
	}
	setDesktopSize struct{ size image.Point }
)

// reader reads messages of a client.
type reader struct{ r io.Reader }

func (r reader) take(n int) ([]byte, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(r.r, b); err != nil {
		return nil, fmt.Errorf("read rfb message: %w", err)
	}
	return b, nil
}

// next reads one message.
func (r reader) next() (message, error) {
	kind, err := r.take(1)
	if err != nil {
		return nil, err
	}
	switch kind[0] {
	case msgSetPixelFormat:
		b, err := r.take(19)
		if err != nil {
			return nil, err
		}
		return parseFormat(b[3:])
	case msgSetEncodings:
		return r.encodings()
	case msgUpdateRequest:
		b, err := r.take(9)
		if err != nil {
			return nil, err
		}
		return updateRequest{incremental: b[0] != 0, rect: rectOf(b[1:])}, nil
	case msgKey:
		b, err := r.take(7)
		if err != nil {
			return nil, err
		}
		return keyEvent{desktop.Key{Sym: desktop.Keysym(binary.BigEndian.Uint32(b[3:]))}, b[0] != 0}, nil
	case msgPointer:
		b, err := r.take(5)
		if err != nil {
			return nil, err
		}
		return pointerEvent{pointOf(b[1:]), desktop.Button(b[0])}, nil
	case msgCut:
		return r.cut()
	}
	return r.extended(kind[0])
}

// extended reads what is not in RFC 6143.
func (r reader) extended(kind byte) (message, error) {
	switch kind {
	case msgContinuous:
		b, err := r.take(9)
		if err != nil {
			return nil, err
		}
		return continuous{on: b[0] != 0, rect: rectOf(b[1:])}, nil
	case msgFence:
		b, err := r.take(8)
		if err != nil {
			return nil, err
		}
		if b[7] > maxFence {
			return nil, malformed("a fence of %d bytes", b[7])
		}
		payload, err := r.take(int(b[7]))
		return fence{binary.BigEndian.Uint32(b[3:]), payload}, err
	case msgSetDesktopSize:
		b, err := r.take(7)
		if err != nil {
			return nil, err
		}
		if b[5] > maxScreens {
			return nil, malformed("%d screens", b[5])
		}
		_, err = r.take(16 * int(b[5]))
		return setDesktopSize{pointOf(b[1:])}, err
	case msgQEMU:
		b, err := r.take(11)
		if err != nil {
			return nil, err
		}
		if b[0] != qemuKey {
			return nil, malformed("QEMU message %d", b[0])
		}
		return keyEvent{
			desktop.Key{Sym: desktop.Keysym(binary.BigEndian.Uint32(b[3:])), Code: place(binary.BigEndian.Uint32(b[7:]))},
			binary.BigEndian.Uint16(b[1:]) != 0,
		}, nil
	}
	return nil, malformed("type %d", kind)
}

// place is a key's scancode in QEMU's encoding: clients write the prefix 0xe0 of a
// set-1 scancode as a high byte, or as its bit.
func place(code uint32) desktop.Keycode {
	switch {
	case code>>8 == 0xe0:
		return desktop.Keycode(code&0x7f | 0x80)
	case code > 0xff:
		return 0
	}
	return desktop.Keycode(code)
}

func (r reader) encodings() (message, error) {
	b, err := r.take(3)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(b[1:]))
	if n > maxEncodings {
		return nil, malformed("%d encodings", n)
	}
	raw, err := r.take(4 * n)
	if err != nil {
		return nil, err
	}
	list := make(setEncodings, n)
	for i := range list {
		list[i] = int32(binary.BigEndian.Uint32(raw[4*i:]))
	}
	return list, nil
}

// cut reads a text, which is Latin-1. What is longer than any clipboard takes is
// refused; a negative length is the extended clipboard, which nobody was offered.
func (r reader) cut() (message, error) {
	b, err := r.take(7)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(b[3:])
	if n > maxCut {
		return nil, malformed("a text of %d bytes", n)
	}
	raw, err := r.take(int(n))
	if err != nil {
		return nil, err
	}
	text := make([]rune, len(raw))
	for i, c := range raw {
		text[i] = rune(c)
	}
	return cutText{string(text)}, nil
}

func pointOf(b []byte) image.Point {
	return image.Pt(int(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:])))
}

func rectOf(b []byte) image.Rectangle {
	at := pointOf(b)
	return image.Rectangle{Min: at, Max: at.Add(pointOf(b[4:]))}
}
