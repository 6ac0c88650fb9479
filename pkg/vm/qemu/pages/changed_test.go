//go:build linux

package pages_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ways are the two searches of Changed.
func ways(t *testing.T, p *process) map[string]func(int, pages.Region) ([]pages.Run, error) {
	t.Helper()
	all := map[string]func(int, pages.Region) ([]pages.Run, error){
		"read": pages.ChangedByRead, "chosen": pages.Changed, "scan": pages.ChangedByScan,
	}
	if _, err := pages.ChangedByScan(p.pid, p.region); errors.Is(err, unix.ENOTTY) {
		t.Log("this kernel has no PAGEMAP_SCAN (Linux 6.7)")
		delete(all, "scan")
	}
	return all
}

func runs(list ...int64) []pages.Run {
	var out []pages.Run
	for i := 0; i < len(list); i += 2 {
		out = append(out, pages.Run{Off: list[i] * page, Len: list[i+1] * page})
	}
	return out
}

// TestChanged: written pages count, also with equal bytes and zeros; pages only
// looked at, and those given back, do not. Segments of the search have seams.
func TestChanged(t *testing.T) {
	t.Parallel()
	const seam = 256 << 20 / page
	p := start(t, blank(t, t.TempDir(), 3*256<<20-64*page))
	if got := p.changed(); len(got) != 0 {
		t.Errorf("before all: %v", got)
	}
	for _, line := range []string{
		"look 0 4096 0", "fill 5 1 1", "fill 7 3 2", "same 100 2 0", "zero 102 1 0", "last 200 1 1",
		fmt.Sprintf("fill %d 20 3", seam-10), fmt.Sprintf("fill %d 1 3", 2*seam), "fill 300 10 4", "drop 303 2 0", "split 8 1 0",
		fmt.Sprintf("fill %d 1 5", 3*seam-65),
	} {
		p.tell(line)
	}
	want := runs(5, 1, 7, 3, 100, 3, 200, 1, 300, 3, 305, 5, seam-10, 20, 2*seam, 1, 3*seam-65, 1)
	for name, look := range ways(t, p) {
		if got, err := look(p.pid, p.region); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	part := pages.Region{Addr: p.region.Addr + 8*page, Size: 93 * page}
	if got, err := pages.Changed(p.pid, part); err != nil || !slices.Equal(got, runs(0, 2, 92, 1)) {
		t.Errorf("part: %v, %v", got, err)
	}
}

// TestChangedManyRuns holds the searches against a model with more runs than
// either takes at once; a kernel was seen that hands out some of them twice.
func TestChangedManyRuns(t *testing.T) {
	t.Parallel()
	const count = 16384
	p := start(t, blank(t, t.TempDir(), count*page))
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 2))
		p.tell(fmt.Sprintf("drop 0 %d 0", count))
		var want []pages.Run
		for i := 0; i < count; i += 2 + int(seed)*r.IntN(4) {
			p.tell(fmt.Sprintf("last %d 1 7", i))
			want = append(want, pages.Run{Off: int64(i) * page, Len: page})
		}
		for name, look := range ways(t, p) {
			if got, err := look(p.pid, p.region); err != nil || !slices.Equal(got, want) {
				t.Errorf("seed %d, %s: %d runs, %v; want %d", seed, name, len(got), err, len(want))
			}
		}
	}
}

func TestChangedRefusesHalfPages(t *testing.T) {
	t.Parallel()
	for _, r := range []pages.Region{{}, {Addr: 1, Size: page}, {Addr: page, Size: 100}, {Addr: page, Size: -page}} {
		if got, err := pages.Changed(1, r); err == nil {
			t.Errorf("Changed(%+v) = %v", r, got)
		}
	}
}
