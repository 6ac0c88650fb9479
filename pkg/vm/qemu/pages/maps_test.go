//go:build linux

package pages_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		maps, path string
		want       pages.Region
		err        string
	}{
		"whole":        {maps: "1000-3000 rw-p 00000000 08:01 7    /ram\n", path: "/ram", want: pages.Region{Addr: 0x1000, Size: 0x2000}},
		"among others": {maps: "1000-2000 rw-p 00000000 00:00 0 \n2000-3000 rw-p 00000000 08:01 7    /ram\n3000-4000 rw-p 0 00:00 0          [heap]\n", path: "/ram", want: pages.Region{Addr: 0x2000, Size: 0x1000}},
		"split":        {maps: "1000-3000 rw-p 00000000 08:01 7    /ram\n3000-4000 r--p 00002000 08:01 7    /ram\n", path: "/ram", want: pages.Region{Addr: 0x1000, Size: 0x3000}},
		"removed":      {maps: "1000-3000 rw-p 00000000 08:01 7    /ram (deleted)\n", path: "/ram", want: pages.Region{Addr: 0x1000, Size: 0x2000}},
		"replaced": {
			maps: "1000-3000 rw-p 00000000 08:01 7    /ram (deleted)\n5000-6000 rw-p 00000000 08:01 8    /ram\n",
			path: "/ram", want: pages.Region{Addr: 0x5000, Size: 0x1000},
		},
		"spaces":        {maps: "1000-3000 rw-p 00000000 08:01 7    /a  b (deleted)/ram x\n", path: "/a  b (deleted)/ram x", want: pages.Region{Addr: 0x1000, Size: 0x2000}},
		"newline":       {maps: "1000-3000 rw-p 00000000 08:01 7    /a\\012b\n", path: "/a\nb", want: pages.Region{Addr: 0x1000, Size: 0x2000}},
		"high":          {maps: "ffff00000000-ffff80000000 rw-p 00000000 08:01 7    /ram\n", path: "/ram", want: pages.Region{Addr: 0xffff00000000, Size: 0x80000000}},
		"none":          {maps: "1000-3000 rw-p 00000000 08:01 7    /ram2\n", path: "/ram", err: "not mapped"},
		"shared":        {maps: "1000-3000 rw-s 00000000 08:01 7    /ram\n", path: "/ram", err: "shared"},
		"twice":         {maps: "1000-3000 rw-p 00000000 08:01 7    /ram\n3000-4000 rw-p 00000000 08:01 7    /ram\n", path: "/ram", err: "more than once"},
		"gap":           {maps: "1000-3000 rw-p 00000000 08:01 7    /ram\n4000-5000 rw-p 00003000 08:01 7    /ram\n", path: "/ram", err: "gaps"},
		"from a middle": {maps: "1000-3000 rw-p 00001000 08:01 7    /ram\n", path: "/ram", err: "begins at byte 4096"},
		"no map":        {maps: "hello\n", path: "/ram", err: `"hello"`},
		"backwards":     {maps: "3000-1000 rw-p 00000000 08:01 7    /ram\n", path: "/ram", err: "line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := pages.Locate(tc.maps, tc.path)
			if tc.err == "" && (err != nil || got != tc.want) {
				t.Errorf("= %+v, %v; want %+v", got, err, tc.want)
			}
			if tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("= %+v, %v; want an error with %q", got, err, tc.err)
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "with space\nand line")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := blank(t, dir, 64*page)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	p := start(t, path)
	find := func(path string) {
		t.Helper()
		if got, err := pages.Find(p.pid, path); err != nil || got != p.region {
			t.Errorf("Find(%q) = %+v, %v; want %+v", path, got, err, p.region)
		}
	}
	find(path)
	find(link)
	p.tell("split 10 20 0")
	if got, err := pages.FindAt(p.pid, p.region.Addr+11*page); err != nil || got != (pages.Region{Addr: p.region.Addr + 10*page, Size: 20 * page}) {
		t.Errorf("FindAt = %+v, %v; want the part that was split off", got, err)
	}
	find(path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	find(path)
	if _, err := pages.Find(p.pid, path+"2"); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("Find of another file: %v", err)
	}
	if _, err := pages.FindAt(p.pid, page); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("FindAt of nothing: %v", err)
	}
	p.kill()
	if _, err := pages.Find(p.pid, path); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Find in a process that has ended: %v", err)
	}
	if _, err := pages.Changed(p.pid, p.region); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Changed of a process that has ended: %v", err)
	}
}

// TestZombie: ended, but not waited for.
func TestZombie(t *testing.T) {
	t.Parallel()
	path := blank(t, t.TempDir(), 16*page)
	p := start(t, path)
	if err := p.in.Close(); err != nil { // it ends
		t.Fatal(err)
	}
	if _, err := p.out.ReadByte(); err == nil {
		t.Fatal("the child still talks")
	}
	for !ended(t, p.pid) {
	}
	if _, err := pages.Find(p.pid, path); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Find: %v", err)
	}
	if _, err := pages.Changed(p.pid, p.region); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Changed: %v", err)
	}
	f, _ := create(t, p.region.Size)
	if _, err := pages.Copy(t.Context(), p.pid, p.region, []pages.Run{{Off: 0, Len: page}}, f); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Copy: %v", err)
	}
}

func ended(t *testing.T, pid int) bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(b), ") Z ")
}

func TestSharedIsRefused(t *testing.T) {
	t.Parallel()
	path := blank(t, t.TempDir(), 16*page)
	p := startHow(t, path, "shared")
	if _, err := pages.Find(p.pid, path); err == nil || !strings.Contains(err.Error(), "shared") {
		t.Errorf("Find = %v, want a refusal", err)
	}
}
