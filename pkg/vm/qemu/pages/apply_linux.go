package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Apply writes all that f holds into r of process pid, zeros too. vm.ErrGone
// when the process has ended.
func (f *File) Apply(ctx context.Context, pid int, r Region) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if err := f.readable(); err != nil {
		return err
	}
	if r.Size != f.region {
		return fmt.Errorf("write pages: region of %d bytes, pages file for one of %d", r.Size, f.region)
	}
	todo := slices.Concat(batches(f.pieces), batches(nowhere(f.zeros)))
	err := parallel(ctx, len(todo), func() func(int) error {
		t := transfer{pid: pid, region: r, mem: f, call: unix.ProcessVMWritev}
		return func(i int) error { return t.move(todo[i]) }
	})
	if err != nil {
		return failed("write pages", pid, err)
	}
	return nil
}

func (f *File) readable() error {
	switch {
	case f.mem == nil:
		return errClosed
	case f.state == empty:
		return errors.New("pages file: nothing was copied into it")
	}
	return nil
}

func nowhere(zeros []Run) []piece {
	out := make([]piece, len(zeros))
	for i, z := range zeros {
		out[i] = piece{z, -1}
	}
	return out
}
