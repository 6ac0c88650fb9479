package build

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
)

// Offsets in a bzImage, Documentation/x86/boot.rst of the kernel.
const (
	setupSectsOff   = 0x1f1 // number of 512-byte sectors before the compressed part, less one
	headerMagicOff  = 0x202 // "HdrS"
	payloadOff      = 0x248 // of the payload from the compressed part; its length follows
	payloadEnd      = 0x250
	bootSectorSize  = 512
	defaultSetup    = 4    // meant when setup_sects is 0
	notePVHEntry    = 0x12 // XEN_ELFNOTE_PHYS32_ENTRY: where a hypervisor enters an ELF kernel
	noteHeaderBytes = 12
)

// errNoVmlinux says that a kernel cannot be booted without unpacking itself.
var errNoVmlinux = errors.New("no ELF kernel with a PVH entry in an xz payload")

// vmlinux returns the ELF kernel inside a bzImage. A hypervisor enters it directly: under
// emulation that saves the 4 s that a kernel takes to unpack itself, and the hypervisor
// maps the file instead of reading it, so machines share its pages. The price is a kernel
// at a fixed address (KASLR is done by the unpacker).
func vmlinux(ctx context.Context, bzImage []byte) ([]byte, error) {
	payload, err := payloadOf(bzImage)
	if err != nil {
		return nil, err
	}
	xz := toolPath("xz")
	if xz == "" {
		return nil, missing("xz")
	}
	// The build of a kernel appends the unpacked size to the stream.
	cmd := exec.CommandContext(ctx, xz, "--decompress", "--stdout", "--single-stream")
	cmd.Stdin = bytes.NewReader(payload)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("unpack kernel: %w", err)
	}
	if !hasPVHEntry(out) {
		return nil, fmt.Errorf("unpack kernel: %w", errNoVmlinux)
	}
	return out, nil
}

// payloadOf returns the xz stream of a bzImage.
func payloadOf(b []byte) ([]byte, error) {
	if len(b) < payloadEnd || string(b[headerMagicOff:headerMagicOff+4]) != "HdrS" {
		return nil, fmt.Errorf("read kernel header: %w", errNoVmlinux)
	}
	sectors := int64(b[setupSectsOff])
	if sectors == 0 {
		sectors = defaultSetup
	}
	begin := (sectors+1)*bootSectorSize + int64(binary.LittleEndian.Uint32(b[payloadOff:]))
	end := begin + int64(binary.LittleEndian.Uint32(b[payloadOff+4:]))
	if end > int64(len(b)) || !bytes.HasPrefix(b[begin:end], []byte("\xfd7zXZ\x00")) {
		return nil, fmt.Errorf("read kernel payload: %w", errNoVmlinux)
	}
	return b[begin:end], nil
}

// hasPVHEntry reports whether an ELF file has the note by which QEMU enters it.
func hasPVHEntry(b []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			return false
		}
		for len(notes) >= noteHeaderBytes {
			nameLen := int64(binary.LittleEndian.Uint32(notes))
			descLen := int64(binary.LittleEndian.Uint32(notes[4:]))
			name := noteHeaderBytes + (nameLen+3)/4*4
			next := name + (descLen+3)/4*4
			if next > int64(len(notes)) {
				break
			}
			if binary.LittleEndian.Uint32(notes[8:]) == notePVHEntry &&
				bytes.HasPrefix(notes[noteHeaderBytes:], []byte("Xen\x00")) {
				return true
			}
			notes = notes[next:]
		}
	}
	return false
}
