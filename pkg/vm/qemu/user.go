package qemu

import (
	"fmt"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// LookupUser returns the user with this name or number, with the group of
// /dev/kvm where that is not root's, so that hardware acceleration works.
func LookupUser(name string) (*User, error) {
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
