//go:build linux

package pages_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

const benchRegion = 2 << 30

// BenchmarkFork takes every step of a fork in turn, with pages on the disk of
// TMPDIR and in memory (/dev/shm), and beside them a plain copy of the same
// number of bytes, in memory already. It prints medians and best times, and the
// time of all processors together, which other load on the host disturbs less.
func BenchmarkFork(b *testing.B) {
	shm := inMemory(b)
	for _, mib := range []int{16, 64, 256, 1024} {
		for _, dir := range []string{b.TempDir(), shm} {
			name := fmt.Sprintf("%dMiB/disk", mib)
			if dir == shm {
				name = fmt.Sprintf("%dMiB/memory", mib)
			}
			b.Run(name, func(b *testing.B) {
				template := blank(b, shm, benchRegion)
				p, found := busy(b, template, mib)
				s := steps{b: b, mib: mib, took: make(map[string][]time.Duration), cpu: make(map[string][]time.Duration)}
				for b.Loop() {
					s.memcpy()
					s.fork(p, found, dir, template)
				}
				p.kill()
				if err := os.Remove(template); err != nil {
					b.Fatal(err)
				}
				s.report()
			})
		}
	}
}

// busy is a process with 2 GiB of which mib have changed, in runs of 1 to 64
// pages with gaps between, and 256 MiB of the rest were looked at.
func busy(b *testing.B, path string, mib int) (*process, []pages.Run) {
	b.Helper()
	const all, seen = benchRegion / page, 256 << 20 / page
	p := start(b, path)
	p.tell(fmt.Sprintf("look %d %d 0", all-seen, seen))
	r := rand.New(rand.NewPCG(1, 5))
	for left, at := mib<<20/page, 0; left > 0; {
		n := min(1+r.IntN(64), left)
		p.tell(fmt.Sprintf("fill %d %d 1", at, n))
		left, at = left-n, at+n+1+n/2
	}
	return p, p.changed()
}

// steps collects times under names.
type steps struct {
	b     *testing.B
	mib   int
	names []string
	took  map[string][]time.Duration
	cpu   map[string][]time.Duration
}

func (s *steps) time(name string, fn func() error) {
	s.b.Helper()
	before, start := processors(s.b), time.Now()
	err := fn()
	took, cpu := time.Since(start), processors(s.b)-before
	if err != nil {
		s.b.Fatalf("%s: %v", name, err)
	}
	if !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	s.took[name] = append(s.took[name], took)
	s.cpu[name] = append(s.cpu[name], cpu)
}

// processors is the time that they have spent on this process.
func processors(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (s *steps) memcpy() {
	from, to := make([]byte, s.mib<<20), make([]byte, s.mib<<20)
	for i := 0; i < len(from); i += page {
		from[i], to[i] = 1, 1
	}
	for _, goroutines := range []int{1, runtime.GOMAXPROCS(0)} {
		s.time(fmt.Sprintf("memcpy by %d", goroutines), func() error {
			var wg sync.WaitGroup
			part := len(from) / goroutines
			for g := range goroutines {
				wg.Go(func() { copy(to[g*part:(g+1)*part], from[g*part:(g+1)*part]) })
			}
			wg.Wait()
			return nil
		})
	}
}

func (s *steps) fork(p *process, found []pages.Run, dir, template string) {
	s.b.Helper()
	ctx := s.b.Context()
	clone := start(s.b, template)
	defer clone.kill()
	var f *pages.File
	path, whole := filepath.Join(dir, "pages"), filepath.Join(dir, "whole")
	created := func() {
		var err error
		if f, err = pages.Create(path, benchRegion); err != nil {
			s.b.Fatal(err)
		}
	}
	removed := func() {
		if err := os.Remove(path); err != nil {
			s.b.Fatal(err)
		}
	}
	search := func(look func(int, pages.Region) ([]pages.Run, error)) func() error {
		return func() error { _, err := look(p.pid, p.region); return err }
	}
	duplicate := func() error { _, err := pages.Copy(ctx, p.pid, p.region, found, f); return err }

	s.time("search, reading entries", search(pages.ChangedByRead))
	s.time("search by the kernel", search(pages.ChangedByScan))
	created()
	s.time("copy without reserve", duplicate)
	s.time("close", f.Close)
	removed()
	created()
	s.time("reserve", func() error { return f.Reserve(pages.Total(found)) })
	s.time("copy", duplicate)
	s.time("apply to a clone", func() error { return f.Apply(ctx, clone.pid, clone.region) })
	s.time("materialize", func() error { return f.Materialize(ctx, nil, whole) })
	s.time("seal", f.Seal)
	if err := os.Remove(whole); err != nil {
		s.b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.b.Fatal(err)
	}
	removed()
}

func (s *steps) report() {
	s.b.Helper()
	var out strings.Builder
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	for _, name := range s.names {
		all, cpu := s.took[name], s.cpu[name]
		slices.Sort(all)
		slices.Sort(cpu)
		median, best := ms(all[len(all)/2]), ms(all[0])
		fmt.Fprintf(&out, "\n%-24s median %8.2f ms %6.3f ms/MiB   best %8.2f ms %6.3f ms/MiB   processors %6.3f ms/MiB", name,
			median, median/float64(s.mib), best, best/float64(s.mib), ms(cpu[len(cpu)/2])/float64(s.mib))
		if name == "copy" {
			s.b.ReportMetric(median/float64(s.mib), "copy-ms/MiB")
		}
	}
	s.b.ReportMetric(0, "ns/op")
	fmt.Fprintln(os.Stdout, out.String()) // a log would be cut after ten lines
}
