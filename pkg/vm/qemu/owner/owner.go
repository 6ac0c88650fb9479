// Package owner names the user that QEMU processes run as and what that user
// may reach.
package owner

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// User is whom QEMU runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32 // supplementary, e.g. that of /dev/kvm
}

// Credential is what a child process is started with; nil for a nil user.
func (u *User) Credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// Lookup returns the user with this name or number, with the group of
// /dev/kvm where that is not root's, so that hardware acceleration works.
func Lookup(name string) (*User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		byID, idErr := user.LookupId(name)
		if idErr != nil {
			return nil, fmt.Errorf("look up QEMU's user: %w", err)
		}
		u = byID
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("look up QEMU's user: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("look up QEMU's user: %w", err)
	}
	if uid == 0 {
		return nil, fmt.Errorf("QEMU's user %q is root: name another one", name)
	}
	out := &User{UID: uint32(uid), GID: uint32(gid)}
	var st unix.Stat_t
	if unix.Stat("/dev/kvm", &st) == nil && st.Gid != 0 {
		out.Groups = []uint32{st.Gid}
	}
	return out, nil
}

// Self is our own user.
func Self() *User {
	u := &User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if groups, err := os.Getgroups(); err == nil {
		for _, g := range groups {
			u.Groups = append(u.Groups, uint32(g))
		}
	}
	return u
}

// May reports whether u has all of want (bits rwx) by owner, group and mode.
func (u *User) May(st unix.Stat_t, want uint32) bool {
	mode := st.Mode
	switch {
	case u.UID == 0:
		return true
	case u.UID == st.Uid:
		return mode>>6&want == want
	case u.GID == st.Gid || slices.Contains(u.Groups, st.Gid):
		return mode>>3&want == want
	default:
		return mode&want == want
	}
}

// Unreachable returns the first directory on the way to dir that u may not pass
// through, or nothing. What does not exist yet does not block.
// nil is our own user.
func (u *User) Unreachable(dir string) string {
	if u == nil {
		u = Self()
	}
	var parts []string
	for d := dir; ; d = filepath.Dir(d) {
		parts = append(parts, d)
		if d == filepath.Dir(d) {
			break
		}
	}
	for _, d := range slices.Backward(parts) {
		var st unix.Stat_t
		if unix.Stat(d, &st) == nil && !u.May(st, 0o1) {
			return d
		}
	}
	return ""
}
