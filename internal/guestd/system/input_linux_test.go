package system

import (
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestReleases(t *testing.T) {
	when := int(unsafe.Sizeof(unix.Timeval{}))
	for name, tt := range map[string]struct {
		held map[int]byte // bytes of the bitmap
		want []uint16     // codes of keys
	}{
		"nothing":         {},
		"shift":           {map[int]byte{42 / 8: 1 << (42 % 8)}, []uint16{42}},
		"keys and button": {map[int]byte{0: 1 << 1, 0x110 / 8: 1 << (0x110 % 8), keyBytes - 1: 1 << 7}, []uint16{1, 0x110, 0x2ff}},
	} {
		t.Run(name, func(t *testing.T) {
			held := make([]byte, keyBytes)
			for i, b := range tt.held {
				held[i] = b
			}
			var codes []uint16
			out := releases(held)
			for e := range slices.Chunk(out, when+8) {
				kind, code := binary.NativeEndian.Uint16(e[when:]), binary.NativeEndian.Uint16(e[when+2:])
				if binary.NativeEndian.Uint32(e[when+4:]) != 0 {
					t.Errorf("event %x presses something", e)
				}
				if kind == 1 {
					codes = append(codes, code)
				}
			}
			if !slices.Equal(codes, tt.want) {
				t.Errorf("released %v, want %v", codes, tt.want)
			}
			if len(tt.want) > 0 && len(out) != (len(tt.want)+1)*(when+8) {
				t.Errorf("%d bytes: want one report at the end", len(out))
			}
		})
	}
}
