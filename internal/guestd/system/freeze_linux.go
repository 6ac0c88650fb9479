package system

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/guest"
)

// FIFREEZE and FITHAW of linux/fs.h.
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// Freeze implements Freezer. What can be written out before is, so that writers
// wait for the rest only.
func (Host) Freeze(dir string) (string, error) {
	device, err := mountedAt(dir)
	if err != nil {
		return "", err
	}
	if device == "" { // the ioctl would freeze what dir lies on: the system
		return "", &guest.Error{Code: guest.CodeNotFound, Message: "nothing is mounted at " + dir}
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return "", fmt.Errorf("write out %s: %w", dir, err)
	}
	err = control(f, fiFreeze)
	switch {
	case errors.Is(err, unix.EBUSY):
		return "", &guest.Error{Code: guest.CodeBusy, Message: dir + " is frozen already"}
	case errors.Is(err, unix.EOPNOTSUPP):
		return "", &guest.Error{Code: guest.CodeUnsupported, Message: "the file system at " + dir + " cannot be frozen"}
	}
	return device, err
}

// Thaw implements Freezer.
func (Host) Thaw(dir string) (bool, error) {
	device, err := mountedAt(dir)
	if err != nil || device == "" {
		return false, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = control(f, fiThaw)
	if errors.Is(err, unix.EINVAL) { // it is not frozen
		return false, nil
	}
	return err == nil, err
}

func control(f *os.File, request uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, 0); errno != 0 {
		return errno
	}
	return nil
}

var _ Freezer = Host{}
