//go:build linux

package pages_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

// room is what a file takes on disk in bytes.
func room(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * 512
}

// own is a region of this process.
func own(tb testing.TB, size int64) (pages.Region, []byte) {
	tb.Helper()
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			tb.Error(err)
		}
	})
	return pages.Region{Addr: uint64(uintptr(unsafe.Pointer(&mem[0]))), Size: size}, mem
}

// TestRoom: a reserve takes its room at once, and what was not needed of it is
// given back, like that of zero pages.
func TestRoom(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	r, mem := own(t, size)
	for _, line := range []string{"fill 0 100 1", "zero 100 1000 0", "fill 1100 3 1"} {
		if err := act(mem, line); err != nil {
			t.Fatal(err)
		}
	}
	f, path := create(t, size)
	if got := room(t, path); got > 64<<10 {
		t.Errorf("fresh file takes %d bytes", got)
	}
	if err := f.Reserve(16 << 20); err != nil {
		t.Fatal(err)
	}
	if got := room(t, path); got < 16<<20 || got > 17<<20 {
		t.Errorf("file with 16 MiB in reserve takes %d bytes", got)
	}
	if _, err := pages.Open(path); !errors.Is(err, vm.ErrCorrupt) {
		t.Errorf("Open of a file that is not filled: %v", err)
	}
	if _, err := pages.Copy(t.Context(), os.Getpid(), r, runs(0, 1103), f); err != nil {
		t.Fatal(err)
	}
	if _, err := pages.Open(path); !errors.Is(err, vm.ErrCorrupt) {
		t.Errorf("Open of a file that is not sealed: %v", err)
	}
	for range 2 {
		if err := f.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	if got := room(t, path); got > 103*page+64<<10 {
		t.Errorf("file of 103 pages takes %d bytes", got)
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() > pages.DataAt+103*page+100 || st.Mode() != 0o600 {
		t.Errorf("file of 103 pages is %v bytes with mode %v, %v", st.Size(), st.Mode(), err)
	}
}

func TestUseOutOfOrder(t *testing.T) {
	t.Parallel()
	r, mem := own(t, 8*page)
	mem[0] = 1
	f, path := create(t, r.Size)
	ctx, pid := t.Context(), os.Getpid()
	fails := func(what string, err, want error) {
		t.Helper()
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	fails("seal before copy", f.Seal(), nil)
	fails("sync before copy", f.Sync(), nil)
	fails("apply before copy", f.Apply(ctx, pid, r), nil)
	fails("materialize before copy", f.Materialize(ctx, nil, path+"2"), nil)
	_, err := pages.Copy(ctx, pid, pages.Region{Addr: r.Addr, Size: 4 * page}, nil, f)
	fails("copy of another region", err, nil)
	for _, bad := range [][]pages.Run{runs(8, 1), runs(0, 9), runs(-1, 2), runs(2, 1, 1, 1), runs(1, 2, 2, 1), {{Off: 1, Len: page}}, {{Off: 0, Len: 1}}, runs(0, 0)} {
		_, err := pages.Copy(ctx, pid, r, bad, f)
		fails("copy of bad runs", err, nil)
	}
	if _, err := pages.Copy(ctx, pid, r, runs(0, 1, 2, 1), f); err != nil {
		t.Fatal(err)
	}
	_, err = pages.Copy(ctx, pid, r, runs(0, 1), f)
	fails("copy again", err, nil)
	fails("reserve after copy", f.Reserve(page), nil)
	fails("apply to another region", f.Apply(ctx, pid, pages.Region{Addr: r.Addr, Size: 4 * page}), nil)
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = pages.Copy(ctx, pid, r, runs(0, 1), f)
	fails("copy after close", err, os.ErrClosed)
	fails("reserve after close", f.Reserve(page), os.ErrClosed)
	fails("seal after close", f.Seal(), os.ErrClosed)
	fails("apply after close", f.Apply(ctx, pid, r), os.ErrClosed)
	_, err = pages.Create(path, r.Size)
	fails("create over a file", err, fs.ErrExist)
	for _, size := range []int64{0, -page, page + 1, 1 << 60} {
		_, err = pages.Create(path+"3", size)
		fails("create with a bad size", err, nil)
	}
	again := opened(t, path) // Close has sealed it
	if !slices.Equal(again.Runs(), runs(0, 1)) || !slices.Equal(again.Zeros(), runs(2, 1)) {
		t.Errorf("holds %v and zeros %v", again.Runs(), again.Zeros())
	}
	_, err = pages.Copy(ctx, pid, r, runs(0, 1), again)
	fails("copy into an opened file", err, nil)
	base, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	fails("drop zeros of an opened file", again.DropZeros(base), nil)
}

func TestNothingChanged(t *testing.T) {
	t.Parallel()
	r, _ := own(t, 8*page)
	f, path := create(t, r.Size)
	if s, err := pages.Copy(t.Context(), os.Getpid(), r, nil, f); err != nil || s.Data != 0 || s.Zero != 0 {
		t.Fatalf("Copy = %+v, %v", s, err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path)
	if again.Bytes() != 0 {
		t.Errorf("holds %v", again.Runs())
	}
	if err := again.Apply(t.Context(), os.Getpid(), r); err != nil {
		t.Error(err)
	}
}

// TestUnmapped: memory that is not there any more is an error on both ways.
func TestUnmapped(t *testing.T) {
	t.Parallel()
	p := start(t, blank(t, t.TempDir(), 4096*page))
	p.tell("fill 0 4096 1")
	found := p.changed()
	f, _ := create(t, p.region.Size)
	if _, err := pages.Copy(t.Context(), p.pid, p.region, found, f); err != nil {
		t.Fatal(err)
	}
	p.tell("unmap 1000 3 0")
	if err := f.Apply(t.Context(), p.pid, p.region); !errors.Is(err, unix.EFAULT) {
		t.Errorf("Apply: %v", err)
	}
	f, _ = create(t, p.region.Size)
	if _, err := pages.Copy(t.Context(), p.pid, p.region, found, f); !errors.Is(err, unix.EFAULT) {
		t.Errorf("Copy: %v", err)
	}
}

// TestShortened: somebody cuts off a pages file that is in use. Errors, no crash.
func TestShortened(t *testing.T) {
	t.Parallel()
	r, mem := own(t, 64*page)
	if err := act(mem, "fill 0 64 1"); err != nil {
		t.Fatal(err)
	}
	clear(mem[:page])
	f, path := create(t, r.Size)
	if _, err := pages.Copy(t.Context(), os.Getpid(), r, runs(0, 64), f); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Apply(t.Context(), os.Getpid(), r); !errors.Is(err, unix.EFAULT) {
		t.Errorf("Apply: %v", err)
	}
	if err := f.Materialize(t.Context(), nil, path+"2"); err == nil {
		t.Error("Materialize succeeds")
	}
	if err := f.Seal(); err == nil || !strings.Contains(err.Error(), "touch a pages file") {
		t.Errorf("Seal: %v", err)
	}
	if err := f.Close(); err == nil {
		t.Error("Close hides that the file could not be sealed")
	}
}

func TestCancelledBefore(t *testing.T) {
	t.Parallel()
	r, mem := own(t, 8*page)
	mem[0] = 1
	f, path := create(t, r.Size)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pages.Copy(ctx, os.Getpid(), r, runs(0, 1), f); !errors.Is(err, context.Canceled) {
		t.Errorf("Copy: %v", err)
	}
	if _, err := pages.Copy(t.Context(), os.Getpid(), r, runs(0, 1), f); err != nil {
		t.Fatal(err)
	}
	if err := f.Apply(ctx, os.Getpid(), r); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply: %v", err)
	}
	if err := f.Materialize(ctx, nil, path+"2"); !errors.Is(err, context.Canceled) {
		t.Errorf("Materialize: %v", err)
	}
	if _, err := os.Stat(path + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Materialize left a file: %v", err)
	}
}

// TestDamaged flips each byte of header and table, and cuts the file.
func TestDamaged(t *testing.T) {
	t.Parallel()
	r, mem := own(t, 8*page)
	mem[0], mem[3*page] = 1, 1
	f, path := create(t, r.Size)
	if _, err := pages.Copy(t.Context(), os.Getpid(), r, runs(0, 1, 2, 2), f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	refused := func(what string, at int, b []byte) {
		t.Helper()
		if err := os.WriteFile(bad, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := pages.Open(bad); !errors.Is(err, vm.ErrCorrupt) {
			t.Errorf("%s %d: Open = %v, %v", what, at, got, err)
		}
	}
	for at := range good {
		if at >= 56 && at < pages.DataAt+2*page {
			continue
		}
		b := bytes.Clone(good)
		b[at] ^= 4
		refused("flipped byte", at, b)
	}
	for _, n := range []int{0, 1, 55, 56, pages.DataAt - 1, pages.DataAt, len(good) - 1} {
		refused("cut to", n, good[:n])
	}
	refused("longer by", 1, append(bytes.Clone(good), 0))
	if _, err := pages.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
}
