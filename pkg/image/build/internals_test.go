package build

// The pure steps of a build; in the package because nobody outside calls them.

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/image"
)

var update = flag.Bool("update", false, "write golden files") //nolint:gochecknoglobals // a test flag

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestBootstrapArgs(t *testing.T) {
	t.Parallel()
	r := &Recipe{
		Debian: Debian{
			Suite: "bookworm", Variant: "apt", Components: []string{"main", "contrib"}, Updates: true,
			Mirror: "http://deb.debian.org/debian", SecurityMirror: "http://deb.debian.org/debian-security",
		},
		Packages: []string{"a", "b"}, Exclude: []string{"/x/*"}, Include: []string{"/x/y"},
		Kernel: Kernel{Package: "linux-image-amd64"},
	}
	golden(t, "bootstrap.args", strings.Join(r.bootstrapArgs("/root", Mirrors{}), "\n")+"\n")
	golden(t, "bootstrap-mirror.args", strings.Join(r.bootstrapArgs("/root", Mirrors{
		Debian: "http://mirror/debian", Security: "http://mirror/security",
	}), "\n")+"\n")
}

func tree(records ...string) []byte {
	return []byte(strings.ReplaceAll(strings.Join(records, "|")+"|", "|", "\x00"))
}

func TestDiskScript(t *testing.T) {
	t.Parallel()
	nodes, err := parseTree(tree( // in no order
		"f|755|0|0|1700000000.5|10|usr/bin/a tool|",
		"d|755|0|0|1767225600.0|4096|usr/bin|",
		"d|755|0|0|1600000000.0|4096||",
		"d|755|0|0|1767225600.0|4096|usr|",
		"f|4755|0|0|1767225600.0|10|usr/bin/sudo|",
		"d|1777|0|0|1767225600.0|4096|tmp|",
		"f|644|0|0|1767225600.0|10|tmp/left|",
		"d|755|0|0|1767225600.0|4096|boot|",
		"f|644|0|0|1767225600.0|10|boot/grub/x|",
		"l|777|0|0|1767225600.0|4|vmlinuz|boot/vmlinuz-6",
		"l|777|0|0|1767225600.0|4|bin|usr/bin",
		"d|700|1000|1000|1767225600.0|4096|home|",
		`f|640|1000|42|1767225600.0|3|home/say "hi"|`,
	))
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		if nodes[i].path == "/usr/bin/a tool" {
			nodes[i].xattr = []byte{1}
		}
	}
	var out bytes.Buffer
	if err := diskScript(&out, nodes, "/build/root", 1767225600); err != nil {
		t.Fatal(err)
	}
	golden(t, "disk.cmds", out.String())
}

func TestDiskScriptRefuses(t *testing.T) {
	t.Parallel()
	nodes, err := parseTree(tree("p|644|0|0|1.0|0|var/fifo|"))
	if err != nil {
		t.Fatal(err)
	}
	if err := diskScript(&bytes.Buffer{}, nodes, "/r", 1); err == nil || !strings.Contains(err.Error(), "/var/fifo") {
		t.Errorf("diskScript of a pipe = %v, want an error with its path", err)
	}
}

func TestParseTreeRefuses(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"nothing":         nil,
		"cut short":       tree("f|755|0|0|1.0|10|x|")[:15],
		"field missing":   tree("f|755|0|0|1.0|10|x"),
		"mode":            tree("f|rwx|0|0|1.0|10|x|"),
		"owner":           tree("f|755|-1|0|1.0|10|x|"),
		"newline in name": tree("f|755|0|0|1.0|10|a\nquit|"),
		"newline in link": tree("l|777|0|0|1.0|10|a|b\nquit"),
	} {
		if nodes, err := parseTree(data); err == nil {
			t.Errorf("%s: parseTree = %+v, want an error", name, nodes)
		}
	}
}

func FuzzParseTree(f *testing.F) {
	f.Add(tree("f|755|0|0|1.0|10|a/b|", "d|755|0|0|1.0|10|a|"))
	f.Fuzz(func(t *testing.T, data []byte) {
		nodes, err := parseTree(data)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if diskScript(&out, nodes, "/r", 1) != nil {
			return
		}
		for _, n := range nodes {
			if !strings.HasPrefix(n.path, "/") || strings.Contains(n.path, "/../") {
				t.Fatalf("path %q leaves the root", n.path)
			}
		}
	})
}

func TestLoadOrder(t *testing.T) {
	t.Parallel()
	const deps = `kernel/a.ko.xz: kernel/b.ko kernel/c-d.ko
kernel/b.ko: kernel/c-d.ko
kernel/c-d.ko:
kernel/e.ko: kernel/c-d.ko
`
	got, err := loadOrder(deps, "kernel/built/ext4.ko\n", []string{"e", "a", "c_d", "ext4"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"kernel/c-d.ko", "kernel/e.ko", "kernel/b.ko", "kernel/a.ko.xz"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("loadOrder (-want +got):\n%s", diff)
	}
	if _, err := loadOrder(deps, "", []string{"ext4", "nope"}); err == nil || !strings.Contains(err.Error(), "nope") {
		t.Errorf("loadOrder of missing modules = %v, want an error naming each", err)
	}
}

func TestWriteCPIO(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := writeCPIO(&out, []cpioEntry{
		{name: "bin", mode: cpioDir | 0o755},
		{name: "bin/sh", mode: cpioLink | 0o777, data: []byte("busybox")},
		{name: "init", mode: cpioFile | 0o755, data: []byte("#!/bin/sh\n")},
	}, 1767225600)
	if err != nil {
		t.Fatal(err)
	}
	if out.Len()%4 != 0 {
		t.Errorf("archive of %d bytes is not aligned", out.Len())
	}
	golden(t, "initramfs.hex", hex.Dump(out.Bytes()))
}

func TestGuestCapability(t *testing.T) {
	t.Parallel()
	v2, _ := hex.DecodeString("0100000200200000000000000000000000000000")
	v3, _ := hex.DecodeString("0100000300200000000000000000000000000000a0860100")
	for name, in := range map[string][]byte{"revision 2": v2, "revision 3": v3} {
		got, err := guestCapability(in)
		if err != nil || !bytes.Equal(got, v2) {
			t.Errorf("%s: guestCapability = %x, %v", name, got, err)
		}
	}
	for name, in := range map[string][]byte{"short": v2[:12], "revision 1": append([]byte{1, 0, 0, 1}, v2[4:]...)} {
		if got, err := guestCapability(in); err == nil {
			t.Errorf("%s: guestCapability = %x, want an error", name, got)
		}
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	s, err := image.Open(image.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Builder: New(Config{Store: s})}
	other := errors.New("exit status 1")
	full := []error{
		fmt.Errorf("write initramfs: %w", syscall.ENOSPC),
		&scriptError{script: "pack", output: "debugfs: No space left on device while writing", err: other},
	}
	for _, in := range full {
		var space *image.NoSpaceError
		if got := r.diskFull(StagePack, in); !errors.As(got, &space) || !errors.Is(got, in) ||
			space.Stage != "pack disk" || space.Free == 0 || image.Hint(got) == "" {
			t.Errorf("diskFull(%v) = %v, want a NoSpaceError with stage, numbers and hint", in, got)
		}
	}
	for _, in := range []error{other, &scriptError{script: "pack", output: "exit", err: other}} {
		if got := r.diskFull(StagePack, in); errors.Is(got, image.ErrNoSpace) || !errors.Is(got, in) {
			t.Errorf("diskFull(%v) = %v, want it unchanged", in, got)
		}
	}
}

func TestTailWriter(t *testing.T) {
	t.Parallel()
	w := &tailWriter{limit: 5}
	for _, s := range []string{"ab", "cd", "efgh", ""} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if w.String() != "defgh" {
		t.Errorf("tail = %q", w.String())
	}
}

func TestPackagesCoverTools(t *testing.T) {
	t.Parallel()
	for _, p := range Packages() {
		if p.Name == "" || p.Why == "" {
			t.Errorf("package %+v says not what it is or why", p)
		}
	}
	for _, s := range Stages() {
		if s.Expected() == 0 {
			t.Errorf("stage %s has no expected time", s)
		}
	}
}
