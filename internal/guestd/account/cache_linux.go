package account

import "golang.org/x/sys/unix"

// fileID tells one state of a file from another.
type fileID struct {
	inode         uint64
	size          int64
	mtime, change unix.Timespec
}

// database is the present state of the files that name users; not ok when they
// cannot be told.
func database() (files []fileID, ok bool) {
	for _, path := range []string{"/etc/passwd", "/etc/group"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil {
			return nil, false
		}
		files = append(files, fileID{st.Ino, st.Size, st.Mtim, st.Ctim})
	}
	return files, true
}
