package pages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// What goes in one call of process_vm_readv(2) or process_vm_writev(2).
const (
	batchBytes  = 1 << 20 // long enough to be worth a call, short enough to be shared out
	batchPieces = 1024    // IOV_MAX
)

// zeroBlock is never written to.
var zeroBlock [batchBytes]byte

// Copy reads runs of r, the result of Changed, from process pid into dst, which
// is empty. Pages of zeros are only noted. When it fails dst is as empty as
// before. vm.ErrGone when the process has ended, vm.ErrNoSpace on a full disk.
//
// The process should stand still, else what is copied is of no one instant.
func Copy(ctx context.Context, pid int, r Region, runs []Run, dst *File) (Stats, error) {
	start := time.Now()
	if err := checkRuns(runs, pageSize(), r.Size); err != nil {
		return Stats{}, fmt.Errorf("copy pages: %w", err)
	}
	dst.mu.Lock()
	defer dst.mu.Unlock()
	if err := dst.writable(); err != nil {
		return Stats{}, err
	}
	if r.Size != dst.region {
		return Stats{}, fmt.Errorf("copy pages: region of %d bytes, pages file for one of %d", r.Size, dst.region)
	}
	if err := dst.allocate(Total(runs)); err != nil {
		return Stats{}, err
	}
	todo := batches(dense(runs))
	got := make([]sifted, len(todo))
	err := parallel(ctx, len(todo), func() func(int) error {
		t := transfer{pid: pid, region: r, mem: dst, call: unix.ProcessVMReadv}
		return func(i int) error {
			if err := t.move(todo[i]); err != nil {
				return err
			}
			return touch(func() { got[i] = dst.sift(todo[i]) })
		}
	})
	if err != nil {
		return Stats{}, failed("copy pages", pid, err)
	}
	var all sifted
	for _, s := range got {
		all.add(s)
	}
	dst.pieces, dst.zeros, dst.state = all.data, all.zeros, filled
	zero := Total(all.zeros)
	return Stats{Data: Total(runs) - zero, Zero: zero, Took: time.Since(start)}, nil
}

// sifted is pages told apart by whether they are zero.
type sifted struct {
	data  []piece
	zeros []Run
}

// sift looks at pages that have just been read: those with something in them
// say so in their first bytes as a rule.
func (f *File) sift(batch []piece) sifted {
	page := pageSize()
	var out sifted
	for _, p := range batch {
		for off := int64(0); off < p.Len; off += page {
			run := Run{p.Off + off, page}
			if isZero(f.data(p.at+off, page)) {
				out.zeros = push(out.zeros, run)
			} else {
				out.data = extend(out.data, piece{run, p.at + off})
			}
		}
	}
	return out
}

func (s *sifted) add(more sifted) {
	for _, p := range more.data {
		s.data = extend(s.data, p)
	}
	for _, r := range more.zeros {
		s.zeros = push(s.zeros, r)
	}
}

// extend appends p, or lengthens the last piece when they touch both in the
// region and in the file.
func extend(pieces []piece, p piece) []piece {
	if n := len(pieces); n > 0 {
		if last := &pieces[n-1]; last.Off+last.Len == p.Off && last.at+last.Len == p.at {
			last.Len += p.Len
			return pieces
		}
	}
	return append(pieces, p)
}

// batches cuts pieces into what goes in one call each.
func batches(pieces []piece) [][]piece {
	var out [][]piece
	cut := make([]piece, 0, len(pieces)+len(pieces)/8)
	first, room := 0, int64(batchBytes)
	end := func() {
		if len(cut) > first {
			out = append(out, cut[first:len(cut):len(cut)])
		}
		first, room = len(cut), batchBytes
	}
	for _, p := range pieces {
		for p.Len > 0 {
			n := min(p.Len, room)
			cut = append(cut, piece{Run{p.Off, n}, p.at})
			p = p.from(n)
			if room -= n; room == 0 || len(cut)-first == batchPieces {
				end()
			}
		}
	}
	end()
	return out
}

// transfer moves batches between a region of a process and a mapped file. One
// goroutine uses it.
type transfer struct {
	pid    int
	region Region
	mem    *File
	call   func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error)

	local  [batchPieces]unix.Iovec
	remote [batchPieces]unix.RemoteIovec
}

func (t *transfer) move(batch []piece) error {
	for len(batch) > 0 {
		local, remote := t.vectors(batch)
		n, err := t.call(t.pid, local, remote, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n <= 0 {
			err = unix.EFAULT
		}
		if err != nil {
			return fmt.Errorf("at %#x: %w", remote[0].Base, err)
		}
		batch = rest(batch, int64(n)) // nothing as a rule; else the next call says why
	}
	return nil
}

func (t *transfer) vectors(batch []piece) ([]unix.Iovec, []unix.RemoteIovec) {
	for i, p := range batch {
		block := zeroBlock[:]
		if p.at >= 0 {
			block = t.mem.data(p.at, p.Len)
		}
		t.local[i].Base = &block[0]
		t.local[i].SetLen(int(p.Len))
		t.remote[i] = unix.RemoteIovec{Base: uintptr(t.region.Addr + uint64(p.Off)), Len: int(p.Len)}
	}
	return t.local[:len(batch)], t.remote[:len(batch)]
}

// rest is batch without its first n bytes.
func rest(batch []piece, n int64) []piece {
	for len(batch) > 0 && n >= batch[0].Len {
		n -= batch[0].Len
		batch = batch[1:]
	}
	if n > 0 && len(batch) > 0 {
		batch = slices.Clone(batch)
		batch[0] = batch[0].from(n)
	}
	return batch
}
