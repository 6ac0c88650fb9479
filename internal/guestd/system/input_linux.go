package system

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keyBytes is the size of the kernel's bitmap of keys and buttons: KEY_MAX is
// 0x2ff.
const keyBytes = 0x300 / 8

// LetGo releases every key and button that the kernel takes for held on an input
// device. In a clone whoever held them is not there: the other machine gets the
// release.
func LetGo() error {
	devices, err := filepath.Glob("/dev/input/event*")
	for _, dev := range devices {
		err = errors.Join(err, letGo(dev))
	}
	if err != nil {
		return fmt.Errorf("let go of keys: %w", err)
	}
	return nil
}

func letGo(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) { // unplugged meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	// EVIOCGKEY(keyBytes)
	const ask = 2<<30 | keyBytes<<16 | 'E'<<8 | 0x18
	var held [keyBytes]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ask, uintptr(unsafe.Pointer(&held[0]))); errno != 0 {
		return fmt.Errorf("ask %s for its keys: %w", device, errno)
	}
	events := releases(held[:])
	if len(events) == 0 {
		return nil
	}
	// What is written to a device comes out of it, for all who read it.
	if _, err := f.Write(events); err != nil {
		return err
	}
	return nil
}

// releases are the input events, see <linux/input.h>, that release the keys of a
// bitmap; none for none.
func releases(held []byte) []byte {
	const (
		synReport = 0
		evSyn     = 0
		evKey     = 1
	)
	var out []byte
	event := func(kind, code uint16) {
		out = append(out, make([]byte, unsafe.Sizeof(unix.Timeval{}))...) // when: the kernel knows
		out = binary.NativeEndian.AppendUint16(out, kind)
		out = binary.NativeEndian.AppendUint16(out, code)
		out = binary.NativeEndian.AppendUint32(out, 0)
	}
	for code := range uint16(8 * len(held)) {
		if held[code/8]>>(code%8)&1 == 1 {
			event(evKey, code)
		}
	}
	if out != nil {
		event(evSyn, synReport)
	}
	return out
}
