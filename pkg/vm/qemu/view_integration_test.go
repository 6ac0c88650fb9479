//go:build integration

package qemu_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// TestViewsWithQEMU writes to a workspace disk as a guest would, through QEMU,
// and reads it from outside while QEMU runs: over forks, over the end of a daemon
// between any two steps, and until the chain is merged.
func TestViewsWithQEMU(t *testing.T) {
	e := realEnv(t)
	flat := make(chan struct{}, 1)
	e.cfg.MaxOverlays = 1
	e.cfg.Trace = func(step string) {
		if step == "flatten/journal" {
			flat <- struct{}{}
		}
	}
	source := filepath.Join(filepath.Dir(e.base), "source")
	content := bytes.Repeat([]byte{'0'}, 64<<20)
	clear(content[8<<20 : 48<<20])
	spec := e.spec(t)
	spec.Workspace = vm.Disk{SizeMiB: 64, Source: source, Filled: true}
	p := e.provider(t)
	fill(t, p, source, content, vm.Extent{Length: 8 << 20}, vm.Extent{Offset: 48 << 20, Length: 16 << 20})
	m, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { destroy(t, m) }() // as the last daemon knows it
	if _, err := os.Stat(source); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the filled disk was copied: %v", err)
	}
	want := bytes.Clone(content)
	write := func(letter byte, off, n int) {
		t.Helper()
		m = e.onMonitor(t, &p, m, fmt.Sprintf("write -P %d %d %d", letter, off, n))
		copy(want[off:], bytes.Repeat([]byte{letter}, n))
	}
	check := func(point, since vm.SnapshotID, most int64) (v *vm.View) {
		t.Helper()
		v, err := p.View(t.Context(), m, vm.ViewSpec{Point: point, Since: since})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		})
		got := make([]byte, v.Bytes)
		if _, err := v.Disk.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("view %s is not what was written: %v", point, err)
		}
		sum := int64(0)
		for _, c := range v.Changed {
			sum += c.Length
		}
		if sum > most || (most < v.Bytes) != (v.Full == "") {
			t.Errorf("view %s since %q: %d bytes changed, want at most %d; full: %q", point, since, sum, most, v.Full)
		}
		return v
	}
	check("p1", "", 64<<20)
	write('A', 12_288, 4096)
	before := bytes.Clone(want)
	v2 := check("p2", "p1", 64<<10)
	write('B', 20<<20, 100_000)
	check("p3", "p2", 192<<10)
	check("p4", "p1", 256<<10)
	if s := sealed(t, p, m, "s1", false); s.ID == "" {
		t.Error("not sealed")
	}
	write('C', 30<<20, 4096)
	check("p5", "p3", 64<<10)
	check("p6", "s1", 64<<10)
	// One seal more and the chain is merged.
	sealed(t, p, m, "s2", false)
	select {
	case <-flat:
	case <-time.After(time.Minute):
		t.Fatal("the chain was not merged")
	}
	check("p7", "p6", 64<<20)
	write('D', 0, 4096)
	check("p8", "p7", 64<<10)
	got := make([]byte, v2.Bytes)
	if _, err := v2.Disk.ReadAt(got, 0); err != nil || !bytes.Equal(got, before) {
		t.Errorf("an old view has changed: %v", err)
	}
	base := make([]byte, v2.Bytes)
	if _, err := io.ReadFull(io.NewSectionReader(v2.Base, 0, v2.Bytes), base); err != nil || !bytes.Equal(base, content) {
		t.Errorf("the base of an old view has changed: %v", err)
	}
}

// fill makes a disk with a content.
func fill(t *testing.T, p vm.Filler, path string, content []byte, holds ...vm.Extent) {
	t.Helper()
	d, err := p.NewDisk(path, int64(len(content)), holds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(holds) {
		_, werr := d.WriteAt(content[e.Offset:e.Offset+e.Length], e.Offset)
		err = errors.Join(err, werr)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.NewDisk(path, int64(len(content)), holds); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second disk of this name: %v", err)
	}
}

// onMonitor ends the daemon, has QEMU do something to the workspace disk, and starts another daemon.
func (e *env) onMonitor(t *testing.T, p **qemu.Provider, m vm.Machine, line string) vm.Machine {
	t.Helper()
	if err := (*p).Close(); err != nil {
		t.Fatal(err)
	}
	sockets, err := filepath.Glob(filepath.Join(e.cfg.RuntimeDir, "vm", "*", "qmp*"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("monitors: %v, %v", sockets, err)
	}
	mon, err := qmp.Dial(t.Context(), sockets[0], qmp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := mon.HMP(t.Context(), fmt.Sprintf("qemu-io -d /machine/peripheral/workspace/virtio-backend %q", line))
	if err != nil || strings.TrimSpace(text) != "" { // it tells of errors alone
		t.Fatalf("%s: %v: %s", line, err, text)
	}
	if err := mon.Close(); err != nil {
		t.Fatal(err)
	}
	*p = e.provider(t)
	all, err := (*p).Recover(t.Context())
	if err != nil || len(all) != 1 || all[0].Info().Incarnation != m.Info().Incarnation {
		t.Fatalf("adopted %v, %v", all, err)
	}
	return all[0]
}
