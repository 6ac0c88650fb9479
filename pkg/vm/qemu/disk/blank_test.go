package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
)

// tool is a program that notes each call in a file and runs a line of shell; $last
// is its last argument.
func tool(t *testing.T, dir, name, line string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	text := fmt.Sprintf("#!/bin/sh\nset -e\necho \"$*\" >> %s.calls\nfor last; do :; done\n%s\n", path, line)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// calls is how often a tool was called.
func calls(t *testing.T, tool string) int {
	t.Helper()
	text, err := os.ReadFile(tool + ".calls")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

func blanks(t *testing.T, convert string) (b *disk.Blanks, made func() int) {
	t.Helper()
	dir := t.TempDir()
	b = &disk.Blanks{Dir: filepath.Join(dir, "blanks"), Tools: disk.Tools{
		Mke2fs: tool(t, dir, "mke2fs", `echo "$*" > "$last"`), QEMUImg: tool(t, dir, "qemu-img", convert),
	}}
	return b, func() int { return calls(t, b.Mke2fs) }
}

// copies makes a copy of what mke2fs has made, which is the argument before the last.
const copies = `while [ $# -gt 2 ]; do shift; done; cp "$1" "$2"`

// TestBlanks: of each kind one is made and all others are copies of it, each its
// own, and no file is left that has a name.
func TestBlanks(t *testing.T) {
	t.Parallel()
	b, made := blanks(t, copies)
	dir := t.TempDir()
	create := func(name string, d vm.Disk) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := b.Create(t.Context(), d, path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
		return string(text)
	}
	ten := vm.Disk{SizeMiB: 10, Label: "work"}
	first := create("first", ten)
	if !strings.Contains(first, "-L work") {
		t.Errorf("it holds %q", first)
	}
	if err := os.WriteFile(filepath.Join(dir, "first"), []byte("of its machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if err := b.Create(context.Background(), ten, filepath.Join(dir, fmt.Sprint("beside-", i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := create("second", ten); got != first || made() != 1 {
		t.Errorf("the second is %q after %d were made, the first %q", got, made(), first)
	}
	if got := create("other", vm.Disk{SizeMiB: 10, Label: "other"}); !strings.Contains(got, "-L other") || made() != 2 {
		t.Errorf("another label: %q, %d made", got, made())
	}
	for i := range int64(9) { // more than are kept
		create(fmt.Sprint("of-", i), vm.Disk{SizeMiB: 20 + i, Label: "work"})
	}
	if create("again", ten); made() != 12 {
		t.Errorf("%d were made: one that is not kept any more is made anew", made())
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestBlanksFail: what fails is said, leaves nothing, and is tried again.
func TestBlanksFail(t *testing.T) {
	t.Parallel()
	b, made := blanks(t, `test -e "$0.works" || { : > "$last"; echo "No space left on device"; exit 1; }; `+copies)
	path := filepath.Join(t.TempDir(), "disk")
	d := vm.Disk{SizeMiB: 10, Label: "work"}
	if err := b.Create(t.Context(), d, path); !errors.Is(err, vm.ErrNoSpace) {
		t.Errorf("on a full disk: %v", err)
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := os.WriteFile(b.QEMUImg+".works", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// A process that was killed in the midst of it has left this.
	if err := os.WriteFile(filepath.Join(b.Dir, "blank.qcow2"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), d, path); err != nil || made() != 2 {
		t.Errorf("with room: %v, %d made", err, made())
	}
	if err := b.Create(t.Context(), d, path); !errors.Is(err, os.ErrExist) {
		t.Errorf("where a file is: %v", err)
	}
}
