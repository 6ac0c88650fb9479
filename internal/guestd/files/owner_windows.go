package files

import (
	"io/fs"
	"os"

	"github.com/deskfork/deskfork/internal/guestd/account"
)

func ownerOf(fs.FileInfo, *account.Names) (user, group string) { return "", "" }

func keepOwner(*os.File, fs.FileInfo) error { return nil }

func inode(fs.FileInfo) (id [2]uint64, ok bool) { return id, false }

const openFlags = 0
