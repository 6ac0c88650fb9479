package image

import (
	"errors"
	"os"
	"syscall"
)

const seekData = 3 // SEEK_DATA of lseek(2)

// isHole reports whether no byte of the n at off is stored. It moves no offset that
// anybody here uses: all reads are at stated positions.
func isHole(f *os.File, off, n int64) bool {
	data, err := f.Seek(off, seekData)
	if errors.Is(err, syscall.ENXIO) {
		return true // no data up to the end of the file
	}
	return err == nil && data >= off+n
}
