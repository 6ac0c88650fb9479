package system

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Host is the real kernel.
type Host struct{}

// Clock implements Kernel.
func (Host) Clock() time.Time { return time.Now() }

// SetClock implements Kernel.
func (Host) SetClock(now time.Time) error {
	ts := unix.NsecToTimespec(now.UnixNano())
	return unix.ClockSettime(unix.CLOCK_REALTIME, &ts)
}

// Reseed implements Kernel: the bytes are credited to the pool, and the
// generator takes a new key from it at once.
func (Host) Reseed(entropy []byte) (string, error) {
	if len(entropy) > 0 {
		if err := reseed(entropy); err != nil {
			return "", err
		}
	}
	uuid, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	return strings.TrimSpace(string(uuid)), err
}

func reseed(entropy []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info of random(4): bits of entropy, size, bytes.
	info := binary.NativeEndian.AppendUint32(nil, uint32(8*len(entropy)))
	info = binary.NativeEndian.AppendUint32(info, uint32(len(entropy)))
	info = append(info, entropy...)
	for len(info)%4 != 0 {
		info = append(info, 0)
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0])))
	if errno != 0 {
		return fmt.Errorf("add entropy: %w", errno)
	}
	const rndReseedCRNG = 0x5207 // RNDRESEEDCRNG of linux/random.h
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), rndReseedCRNG, 0); errno != 0 {
		return fmt.Errorf("take new key: %w", errno)
	}
	return nil
}

// SetHostname implements Kernel. The name lasts over a reboot.
func (Host) SetHostname(name string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return err
	}
	return os.WriteFile("/etc/hostname", []byte(name+"\n"), 0o644)
}

// Power implements Kernel: through systemd, so that services end in order.
func (Host) Power(mode string) error {
	verb, command := "poweroff", unix.LINUX_REBOOT_CMD_POWER_OFF
	if mode == guest.PowerReboot {
		verb, command = "reboot", unix.LINUX_REBOOT_CMD_RESTART
	}
	const enough = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	err := exec.CommandContext(ctx, "systemctl", "--no-block", verb).Run()
	if err == nil {
		return nil
	}
	unix.Sync()
	return errors.Join(err, unix.Reboot(command))
}

// Info implements Kernel.
func (Host) Info() (guest.Info, error) {
	var info guest.Info
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return info, fmt.Errorf("read system state: %w", err)
	}
	var un unix.Utsname
	if err := unix.Uname(&un); err != nil {
		return info, fmt.Errorf("read kernel name: %w", err)
	}
	info.Hostname = unix.ByteSliceToString(un.Nodename[:])
	info.Kernel = unix.ByteSliceToString(un.Release[:])
	info.Now = time.Now()
	info.Uptime = time.Duration(si.Uptime) * time.Second
	const fixedPoint = 1 << 16 // SI_LOAD_SHIFT
	for i, l := range si.Loads {
		info.Load[i] = float64(l) / fixedPoint
	}
	info.MemTotal = si.Totalram * uint64(si.Unit)
	info.MemAvailable = available()
	for _, path := range []string{"/", "/workspace"} {
		var st unix.Statfs_t
		if mounted, err := mountedAt(path); err != nil || mounted == "" || unix.Statfs(path, &st) != nil {
			continue
		}
		unit := uint64(st.Bsize)
		info.Disks = append(info.Disks, guest.Disk{Path: path, Total: st.Blocks * unit, Free: st.Bavail * unit})
	}
	return info, nil
}

// available reads MemAvailable, which sysinfo(2) lacks; 0 when unknown.
func available() uint64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte("MemAvailable:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	kib, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// BootTimes asks systemd how long the boot took; an error until it is over.
func BootTimes(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "systemd-analyze", "time").Output()
	if err != nil {
		return "", fmt.Errorf("run systemd-analyze: %w", err)
	}
	return string(out), nil
}

var _ Kernel = Host{}
