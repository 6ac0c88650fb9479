//go:build linux && amd64

package graft_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/graft"
)

const size = 1 << 20

// TestMain plays the process that waits: it maps a file, says where, and answers
// each line on its standard input with the first byte of that memory, after
// having written to the last.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "/") {
		os.Exit(wait(os.Args[1]))
	}
	os.Exit(m.Run())
}

func wait(path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 1
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		return 1
	}
	mem[0] = 'x'
	b := make([]byte, 1)
	for {
		// A raw read keeps the main thread, which runs this, in a system call.
		if n, err := unix.Read(0, b); errors.Is(err, unix.EINTR) {
			continue
		} else if n != 1 || err != nil {
			return 0
		}
		mem[size-1] = '!'
		_, _ = os.Stdout.Write(mem[:1])
	}
}

func TestMapPutsAFileUnderMemory(t *testing.T) {
	dir := t.TempDir()
	own, template := filepath.Join(dir, "own"), filepath.Join(dir, "template")
	for path, b := range map[string]byte{own: 0, template: 't'} {
		if err := os.WriteFile(path, bytes.Repeat([]byte{b}, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ro, err := os.Open(template)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], own)
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.ExtraFiles = []*os.File{ro}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	ask := func() byte {
		t.Helper()
		b := make([]byte, 1)
		if _, err := in.Write([]byte{'?'}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, b); err != nil {
			t.Fatal(err)
		}
		return b[0]
	}
	if got := ask(); got != 'x' {
		t.Fatalf("before: %q", got)
	}
	pid := cmd.Process.Pid
	fd, err := graft.Descriptor(pid, ro)
	if err != nil || fd != 3 {
		t.Fatalf("Descriptor = %d, %v", fd, err)
	}
	if err := graft.Map(t.Context(), pid, mapping(t, pid, own), size, fd); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != 't' {
		t.Errorf("after: %q, want the template's byte", got)
	}
	b, err := os.ReadFile(template)
	if err != nil || b[size-1] != 't' {
		t.Errorf("the template was written to: %q, %v", b[size-1], err)
	}
	if err := graft.Map(t.Context(), pid, mapping(t, pid, template), size, 999); !errors.Is(err, unix.EBADF) {
		t.Errorf("Map of a descriptor that is not there = %v", err)
	}
	if got := ask(); got != 't' {
		t.Errorf("after a failed one: %q", got)
	}
}

func TestMapRefusesWhatIsNotThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := graft.Map(ctx, 1<<22-1, 0, size, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("Map into no process = %v", err)
	}
}

// mapping is where pid has mapped path.
func mapping(t *testing.T, pid int, path string) uint64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasSuffix(strings.TrimSpace(line), path) {
			from, _, _ := strings.Cut(line, "-")
			addr, err := strconv.ParseUint(from, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return addr
		}
	}
	t.Fatalf("process %d does not map %s", pid, path)
	return 0
}
