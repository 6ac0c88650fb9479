package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Mount implements Kernel. What the kernel remembers of the device is dropped
// first: in a clone another disk may lie there than when it was read.
func (Host) Mount(v Volume) (string, error) {
	mounted, err := mountedAt(v.Dir)
	if err != nil || v.Device == "" {
		return mounted, err
	}
	if mounted != "" {
		if mounted == v.Device {
			return mounted, nil
		}
		return mounted, &guest.Error{Code: guest.CodeBusy, Message: fmt.Sprintf("%s holds %s already, not %s", v.Dir, mounted, v.Device)}
	}
	if err := refresh(v.Device, v.Bytes); err != nil {
		return "", err
	}
	if err := mountAny(v.Device, v.Dir); err != nil {
		return "", err
	}
	return v.Device, adopt(v.Dir, v.Owner)
}

// refresh drops what is cached of a device and sees to it that the kernel knows
// its size.
func refresh(device string, want int64) error {
	have, err := drop(device)
	if err != nil || want == 0 || have == want {
		return err
	}
	if err := probeAgain(device); err != nil {
		return fmt.Errorf("look at %s again, whose size was %d bytes: %w", device, have, err)
	}
	if have, err = drop(device); err == nil && have != want {
		err = invalid(fmt.Sprintf("%s has %d bytes, not %d", device, have, want))
	}
	return err
}

// drop empties the device's page cache and returns its size in bytes.
func drop(device string) (size int64, err error) {
	f, err := os.Open(device)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKFLSBUF, 0); errno != 0 {
		return 0, fmt.Errorf("drop what is cached of %s: %w", device, errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKGETSIZE64, uintptr(unsafe.Pointer(&size))); errno != 0 {
		return 0, fmt.Errorf("read size of %s: %w", device, errno)
	}
	return size, nil
}

// probeAgain takes a virtio disk from its driver and gives it back, which reads
// the disk's size anew. Its name stays: names are given by the lowest free number.
func probeAgain(device string) error {
	link, err := filepath.EvalSymlinks(filepath.Join("/sys/block", filepath.Base(device), "device"))
	if err != nil {
		return err
	}
	const driver = "/sys/bus/virtio/drivers/virtio_blk"
	for _, verb := range []string{"unbind", "bind"} {
		if err := os.WriteFile(filepath.Join(driver, verb), []byte(filepath.Base(link)), 0); err != nil {
			return err
		}
	}
	return nil
}

func mountAny(device, dir string) error {
	var last error
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		last = unix.Mount(device, dir, kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "")
		if last == nil {
			return nil
		}
		if !errors.Is(last, unix.EINVAL) && !errors.Is(last, unix.ENODEV) {
			break
		}
	}
	if errors.Is(last, unix.EINVAL) || errors.Is(last, unix.ENODEV) {
		return invalid(device + " holds no file system that this guest knows")
	}
	return fmt.Errorf("mount %s: %w", device, last)
}

// adopt gives a fresh file system to its user. One that has been used keeps
// the owner it has.
func adopt(dir string, owner Owner) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	used := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != "lost+found" })
	if st.Uid != 0 || used {
		return nil
	}
	return os.Chown(dir, owner.UID, owner.GID)
}

// mountedAt returns the source of what is mounted at dir.
func mountedAt(dir string) (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	source := ""
	for line := range strings.Lines(string(b)) {
		// proc(5): … mount point is field 5; after "-" come type and source.
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if dash < 6 || len(fields) < dash+3 || fields[4] != dir {
			continue
		}
		source = fields[dash+2]
	}
	return source, nil
}
