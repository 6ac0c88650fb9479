package rfb

import (
	"encoding/binary"
	"fmt"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Encodings (RFC 6143, section 7.7 and 7.8, and the community registry).
const (
	encRaw         int32 = 0
	encCopyRect    int32 = 1
	encZRLE        int32 = 16
	encDesktopSize int32 = -223
	encLastRect    int32 = -224
	encPointerPos  int32 = -232
	encRichCursor  int32 = -239
	encPointerType int32 = -257 // QEMU: absolute or relative pointer
	encExtKeys     int32 = -258 // QEMU: extended key events
	encLEDState    int32 = -261 // asked for because it turns QEMU's guessing at lock keys off
	encExtSize     int32 = -308
	encAlphaCursor int32 = -314
)

// Messages.
const (
	msgFramebufferUpdate = 0
	msgColourMap         = 1
	msgBell              = 2
	msgServerCutText     = 3

	msgSetPixelFormat = 0
	msgSetEncodings   = 2
	msgUpdateRequest  = 3
	msgKeyEvent       = 4
	msgPointerEvent   = 5
	msgQEMU           = 255
)

// ProtocolError says what a server sent that this client refuses. The
// connection is closed; the next call dials again. It matches
// desktop.ErrDisconnect.
type ProtocolError struct {
	Stage  string // e.g. "server init", "zrle"
	Detail string
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("rfb protocol, %s: %s", e.Stage, e.Detail)
}

// Is makes errors.Is(err, desktop.ErrDisconnect) true.
func (e *ProtocolError) Is(target error) bool { return target == desktop.ErrDisconnect }

func refuse(stage, format string, args ...any) error {
	return &ProtocolError{Stage: stage, Detail: fmt.Sprintf(format, args...)}
}

// appendPixelFormat asks for 32 bits a pixel, little-endian, blue in the lowest
// byte: QEMU's own format, which it sends without converting.
func appendPixelFormat(b []byte) []byte {
	b = append(b, msgSetPixelFormat, 0, 0, 0)
	return append(b, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0)
}

func appendEncodings(b []byte, encodings []int32) []byte {
	b = append(b, msgSetEncodings, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(encodings)))
	for _, e := range encodings {
		b = binary.BigEndian.AppendUint32(b, uint32(e))
	}
	return b
}

func appendUpdateRequest(b []byte, incremental bool, w, h int) []byte {
	inc := byte(0)
	if incremental {
		inc = 1
	}
	b = append(b, msgUpdateRequest, inc, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(w))
	return binary.BigEndian.AppendUint16(b, uint16(h))
}

func appendKey(b []byte, sym desktop.Keysym, down bool) []byte {
	b = append(b, msgKeyEvent, bit(down), 0, 0)
	return binary.BigEndian.AppendUint32(b, uint32(sym))
}

func appendExtKey(b []byte, k desktop.Key, down bool) []byte {
	b = append(b, msgQEMU, 0, 0, bit(down))
	b = binary.BigEndian.AppendUint32(b, uint32(k.Sym))
	return binary.BigEndian.AppendUint32(b, uint32(k.Code))
}

func appendPointer(b []byte, x, y int, buttons desktop.Button) []byte {
	b = append(b, msgPointerEvent, byte(buttons))
	b = binary.BigEndian.AppendUint16(b, uint16(x))
	return binary.BigEndian.AppendUint16(b, uint16(y))
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}
