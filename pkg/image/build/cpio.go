package build

import (
	"bytes"
	"fmt"
	"io"
)

// Modes in a cpio archive, as in stat(2).
const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
	cpioLink = 0o120000
)

// cpioEntry is a file of an initramfs.
type cpioEntry struct {
	name string // relative
	mode uint32 // type and permissions
	data []byte // content, or a link's target
}

// writeCPIO writes entries in the order given in the "newc" format that the kernel unpacks
// (its Documentation/driver-api/early-userspace/buffer-format.rst). Owner is root, all
// times are mtime, numbers of inodes count from 1: equal entries give equal bytes.
func writeCPIO(w io.Writer, entries []cpioEntry, mtime int64) error {
	var buf bytes.Buffer
	for i, e := range append(entries, cpioEntry{name: "TRAILER!!!"}) {
		links := 1
		if e.mode&cpioDir != 0 && e.mode&cpioFile == 0 {
			links = 2
		}
		if e.mode == 0 {
			i, mtime = -1, 0
		}
		fmt.Fprintf(&buf, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
			i+1, e.mode, 0, 0, links, mtime, len(e.data), 0, 0, 0, 0, len(e.name)+1, 0)
		buf.WriteString(e.name + "\x00")
		pad(&buf)
		buf.Write(e.data)
		pad(&buf)
	}
	if _, err := w.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("write cpio archive: %w", err)
	}
	return nil
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
