package build

import (
	"encoding/binary"
	"errors"
	"testing"
)

func TestPayloadOf(t *testing.T) {
	t.Parallel()
	kernel := make([]byte, 4096)
	copy(kernel[headerMagicOff:], "HdrS")
	kernel[setupSectsOff] = 1
	binary.LittleEndian.PutUint32(kernel[payloadOff:], 16)
	binary.LittleEndian.PutUint32(kernel[payloadOff+4:], 10)
	copy(kernel[1024+16:], "\xfd7zXZ\x00data")
	got, err := payloadOf(kernel)
	if err != nil || string(got) != "\xfd7zXZ\x00data" {
		t.Errorf("payloadOf = %q, %v", got, err)
	}
	edit := func(change func([]byte)) []byte {
		b := append([]byte(nil), kernel...)
		change(b)
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"short":        kernel[:600],
		"no header":    edit(func(b []byte) { b[headerMagicOff] = 'X' }),
		"payload past": edit(func(b []byte) { binary.LittleEndian.PutUint32(b[payloadOff+4:], 1<<31) }),
		"begins past":  edit(func(b []byte) { binary.LittleEndian.PutUint32(b[payloadOff:], 1<<31) }),
		"another kind": edit(func(b []byte) { b[1024+16] = 0x28 }),
	} {
		if got, err := payloadOf(b); !errors.Is(err, errNoVmlinux) {
			t.Errorf("%s: payloadOf = %d bytes, %v; want errNoVmlinux", name, len(got), err)
		}
	}
}

func FuzzPayloadOf(f *testing.F) {
	f.Add(make([]byte, 4096))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if p, err := payloadOf(b); err == nil {
			hasPVHEntry(p)
		}
		hasPVHEntry(b)
	})
}
