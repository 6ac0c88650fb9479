package port

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"version":1,"snapshot":{"host":{"provider":"qemu","version":"7"},"shape":{"VCPUs":1,"MemoryMiB":64},"network":"open","width":640,"height":480},"system_bytes":1,"workspace_bytes":1}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			return
		}
		if m.Snapshot.Shape.MemoryMiB < 1 || m.Snapshot.Shape.MemoryMiB > maxMemoryMiB || m.SystemBytes < 1 {
			t.Errorf("took %+v", m)
		}
	})
}

// pack makes a stream of entries by hand.
func pack(tb testing.TB, entries ...[2]string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		tb.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e[0], Mode: 0o600, Size: int64(len(e[1]))}); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(e[1])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

const goodManifest = `{"version":1,"snapshot":{"host":{"provider":"qemu","version":"7"},"shape":{"VCPUs":1,"MemoryMiB":1},"network":"open","width":640,"height":480},"system_bytes":1048576,"workspace_bytes":1048576}`

func taken(s string) error { return nil }

// TestImportRefuses: streams that a stranger may have made leave nothing.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	block := func(off byte, n int) string {
		return string([]byte{0, 0, 0, 0, 0, off, 0, 0, 0, byte(n >> 16), byte(n >> 8), byte(n)}) + string(make([]byte, n))
	}
	for name, entries := range map[string][][2]string{
		"no manifest":            {{"state", "x"}},
		"a path outside":         {{"manifest.json", goodManifest}, {"../state", "x"}},
		"another order":          {{"manifest.json", goodManifest}, {"ram", ""}},
		"nothing after":          {{"manifest.json", goodManifest}},
		"a block outside":        {{"manifest.json", goodManifest}, {"state", "x"}, {"vram", "x"}, {"ram", block(16, 4096)}},
		"blocks out of order":    {{"manifest.json", goodManifest}, {"state", "x"}, {"vram", "x"}, {"ram", block(2, 4096) + block(1, 4096)}},
		"a block too long":       {{"manifest.json", goodManifest}, {"state", "x"}, {"vram", "x"}, {"ram", block(0, 1<<17)}},
		"a block cut off":        {{"manifest.json", goodManifest}, {"state", "x"}, {"vram", "x"}, {"ram", block(0, 4096)[:100]}},
		"sums of something else": {{"manifest.json", goodManifest}, {"state", "x"}, {"vram", "x"}, {"ram", ""}, {"system.qcow2", "x"}, {"workspace.qcow2", "x"}, {"sums.json", `{"state":"0"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store.New(t.TempDir(), false)
			_, err := Import(context.Background(), disk.Tools{}, s, "a", store.Base{}, taken, bytes.NewReader(pack(t, entries...)))
			if !errors.Is(err, vm.ErrCorrupt) {
				t.Errorf("Import = %v, want ErrCorrupt", err)
			}
			if err := s.Begin("a"); err != nil {
				t.Errorf("something is left: %v", err)
			}
		})
	}
}

func FuzzImport(f *testing.F) {
	f.Add(pack(f, [2]string{"manifest.json", goodManifest}, [2]string{"state", "x"}))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := store.New(t.TempDir(), false)
		_, err := Import(t.Context(), disk.Tools{QEMUImg: "/nonexistent"}, s, "a", store.Base{}, taken, bytes.NewReader(b))
		if err == nil {
			t.Fatal("a stream without sums was taken")
		}
		if err := s.Begin("a"); err != nil {
			t.Errorf("something is left: %v", err)
		}
	})
}
