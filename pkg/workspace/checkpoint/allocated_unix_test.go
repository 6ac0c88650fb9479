//go:build unix

package checkpoint_test

import (
	"os"
	"syscall"
	"testing"
)

// allocated is how many bytes of the disk a file takes.
func allocated(t *testing.T, f *os.File) int64 {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return st.Sys().(*syscall.Stat_t).Blocks * 512
}
