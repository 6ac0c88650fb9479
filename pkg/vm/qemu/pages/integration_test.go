//go:build integration && linux

package pages_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

// TestMemoryOfQEMU lets firmware run in a real QEMU, carries its memory over to a
// second one that has not run at all, and has both write down what they see.
func TestMemoryOfQEMU(t *testing.T) {
	t.Parallel()
	const size = 128 << 20
	template := blank(t, t.TempDir(), size)
	parent := monitor(t, template, size)
	parent.until("firmware moves to the top of memory", func() bool {
		runs, err := pages.Changed(parent.cmd.Process.Pid, parent.find(template, size))
		return err == nil && len(runs) > 0 && runs[len(runs)-1].Off > 1<<20
	})
	parent.tell("stop")
	r := parent.find(template, size)
	found, err := pages.Changed(parent.cmd.Process.Pid, r)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := create(t, size)
	stats, err := pages.Copy(t.Context(), parent.cmd.Process.Pid, r, found, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs, %+v", len(found), stats)
	child := monitor(t, template, size, "-S")
	if err := f.Apply(t.Context(), child.cmd.Process.Pid, child.find(template, size)); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if err := f.Materialize(t.Context(), nil, whole); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	was, is := parent.memory(size), child.memory(size)
	// Between 640 KiB and 1 MiB lie devices and ROMs.
	for _, part := range [][2]int{{0, 640 << 10}, {1 << 20, size}} {
		if from, to := part[0], part[1]; !bytes.Equal(was[from:to], is[from:to]) || !bytes.Equal(was[from:to], file[from:to]) {
			t.Errorf("bytes %#x to %#x of the guest's memory differ", from, to)
		}
	}
	if bytes.Count(was[1<<20:], []byte{0}) == size-1<<20 {
		t.Error("the firmware has written nothing above 1 MiB: nothing was proven")
	}
}

// qemu is a QEMU with its monitor on standard input and output.
type qemu struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func monitor(t *testing.T, ram string, size int64, more ...string) *qemu {
	t.Helper()
	args := append([]string{
		"-machine", "q35,accel=tcg,memory-backend=ram0", "-display", "none", "-monitor", "stdio", "-nodefaults",
		"-object", fmt.Sprintf("memory-backend-file,id=ram0,size=%d,mem-path=%s,share=off", size, ram),
	}, more...)
	q := &qemu{t: t, cmd: exec.CommandContext(t.Context(), "qemu-system-x86_64", args...)}
	in, err := q.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := q.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	q.cmd.Stderr = os.Stderr
	if err := q.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = q.cmd.Process.Kill()
		_ = q.cmd.Wait() // killed
	})
	q.in, q.out = in, bufio.NewReader(out)
	q.prompt()
	return q
}

// prompt reads up to the monitor's next prompt.
func (q *qemu) prompt() {
	q.t.Helper()
	for seen := ""; ; {
		b, err := q.out.ReadByte()
		if err != nil {
			q.t.Fatalf("monitor: %v after %q", err, seen)
		}
		if seen += string(b); bytes.HasSuffix([]byte(seen), []byte("(qemu) ")) {
			return
		}
	}
}

func (q *qemu) tell(command string) {
	q.t.Helper()
	if _, err := fmt.Fprintln(q.in, command); err != nil {
		q.t.Fatal(err)
	}
	q.prompt()
}

func (q *qemu) find(ram string, size int64) pages.Region {
	q.t.Helper()
	r, err := pages.Find(q.cmd.Process.Pid, ram)
	if err != nil || r.Size != size {
		q.t.Fatalf("Find = %+v, %v; want %d bytes", r, err, size)
	}
	return r
}

// memory is the guest's physical memory as QEMU sees it.
func (q *qemu) memory(size int64) []byte {
	q.t.Helper()
	path := filepath.Join(q.t.TempDir(), "memory")
	q.tell(fmt.Sprintf("pmemsave 0 %d %q", size, path))
	b, err := os.ReadFile(path)
	if err != nil || int64(len(b)) != size {
		q.t.Fatalf("pmemsave: %d bytes, %v", len(b), err)
	}
	return b
}

func (q *qemu) until(what string, done func() bool) {
	q.t.Helper()
	for !done() {
		if q.t.Context().Err() != nil {
			q.t.Fatalf("%s: never", what)
		}
		q.tell("info status")
	}
}
