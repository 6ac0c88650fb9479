package account

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Do runs fn so that the kernel judges its file system calls as u's, and so
// that what it makes belongs to u. fn must not start goroutines that touch
// files: the identity is that of the one operating system thread. A process
// that is not root can act as itself only.
func (u User) Do(fn func() error) error {
	self := uint32(os.Geteuid())
	if self == u.UID {
		return fn()
	}
	if self != 0 {
		return &guest.Error{Code: guest.CodePermission, Message: "guestd is not root and cannot act as " + u.Name}
	}
	runtime.LockOSThread()
	groups, err := unix.Getgroups()
	if err == nil {
		err = become(u.UID, u.GID, u.Groups)
	}
	if err != nil {
		// The thread may be half changed. It stays locked, so that it ends
		// with this goroutine and no other ever runs on it.
		return fmt.Errorf("act as %s: %w", u.Name, err)
	}
	defer func() {
		old := make([]uint32, len(groups))
		for i, g := range groups {
			old[i] = uint32(g)
		}
		if become(0, uint32(os.Getegid()), old) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return fn()
}

// become changes this thread alone: the raw calls do not go through the
// runtime, which would change every thread. The order matters in both
// directions: setgroups needs the capability that setfsuid does not take away.
func become(uid, gid uint32, groups []uint32) error {
	var p unsafe.Pointer
	if len(groups) > 0 {
		groups = slices.Clone(groups)
		p = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(p), 0); errno != 0 {
		return fmt.Errorf("set groups: %w", errno)
	}
	// These two report nothing but the former id; asking again with an
	// impossible id tells whether they worked.
	for _, id := range []struct {
		call uintptr
		want uint32
	}{{unix.SYS_SETFSGID, gid}, {unix.SYS_SETFSUID, uid}} {
		_, _, _ = unix.RawSyscall(id.call, uintptr(id.want), 0, 0)
		if now, _, _ := unix.RawSyscall(id.call, ^uintptr(0), 0, 0); uint32(now) != id.want {
			return fmt.Errorf("set file system id %d: %w", id.want, unix.EPERM)
		}
	}
	return nil
}

// shellOf reads the login shell; os/user does not tell it.
func shellOf(name string) string {
	const fallback = "/bin/sh"
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return fallback
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		field := strings.Split(lines.Text(), ":")
		if len(field) >= 7 && field[0] == name && field[6] != "" {
			return field[6]
		}
	}
	return fallback
}
