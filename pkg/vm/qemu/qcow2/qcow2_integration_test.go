//go:build integration

package qcow2_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
)

// TestReadsAsQEMU compares with qemu-img, on a file that it made.
func TestReadsAsQEMU(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw := make([]byte, 5*mib+512)
	for i := range 40 {
		copy(raw[i*130_000:], bytes.Repeat([]byte{byte(i + 1)}, i*1000))
	}
	in, out := filepath.Join(dir, "in.raw"), filepath.Join(dir, "out.qcow2")
	if err := os.WriteFile(in, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", "raw", "-O", "qcow2", in, out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := qcow2.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(io.NewSectionReader(qcow2.Chain{m}, 0, m.Bytes()))
	if err != nil || !bytes.Equal(got, raw) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestQEMUReadsWhatIsCreated: qemu-img finds no fault with new disks, and reads their
// bytes.
func TestQEMUReadsWhatIsCreated(t *testing.T) {
	t.Parallel()
	img := func(args ...string) {
		t.Helper()
		if text, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img %v: %v: %s", args, err, text)
		}
	}
	for seed := range uint64(3) {
		size := int64(30)*mib + int64(seed)*512
		holds, want := scattered(seed, size)
		d, f := create(t, size, holds)
		put(t, d, holds, want)
		img("check", "-q", f.Name())
		raw := f.Name() + ".raw"
		img("convert", "-f", "qcow2", "-O", "raw", f.Name(), raw)
		if got, err := os.ReadFile(raw); err != nil || !bytes.Equal(got, want) {
			t.Errorf("seed %d: %d bytes, %v", seed, len(got), err)
		}
	}
	for _, holds := range [][]vm.Extent{nil, extents(0, 512<<20, 3<<40, 5<<30)} {
		_, f := create(t, 4<<40, holds)
		img("check", "-q", f.Name())
	}
}
