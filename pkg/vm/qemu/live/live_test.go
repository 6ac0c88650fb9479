package live

import (
	"errors"
	"testing"
)

func TestParseHVA(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"Host virtual address for 0xfe000000 (vga.vram) is 0x7f6c4f200000\r\n": 0x7f6c4f200000,
		"No memory is mapped at address 0xfe000000\r\n":                        0,
		"Host virtual address for 0xfe000000 (pc.ram) is 0x7f6c4f200000":       0,
		"Host virtual address for 0xfe000000 (vga.vram) is 0xnothing":          0,
		"": 0,
	} {
		got, err := parseHVA(text)
		if got != want || (want == 0) != errors.Is(err, ErrNoFramebuffer) {
			t.Errorf("parseHVA(%q) = %#x, %v", text, got, err)
		}
	}
}
