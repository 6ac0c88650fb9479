//go:build unix

package files

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/deskfork/deskfork/internal/guestd/account"
)

func ownerOf(fi fs.FileInfo, names *account.Names) (user, group string) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return "", ""
	}
	return names.User(st.Uid), names.Group(st.Gid)
}

// keepOwner gives f the owner of what it replaces. Only root can; for others
// the file is theirs.
func keepOwner(f *os.File, old fs.FileInfo) error {
	st, ok := old.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

// inode tells files with more than one name apart; ok is false for others.
func inode(fi fs.FileInfo) (id [2]uint64, ok bool) {
	st, isStat := fi.Sys().(*syscall.Stat_t)
	if !isStat || st.Nlink < 2 {
		return id, false
	}
	return [2]uint64{uint64(st.Dev), st.Ino}, true //nolint:unconvert // a signed number on other systems
}

// openFlags keep an open from waiting for the other end of a pipe.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY
