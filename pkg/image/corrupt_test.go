package image_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/image"
)

func TestCorrupt(t *testing.T) {
	t.Parallel()
	flip := func(name string, off int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteAt([]byte{'!'}, off)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	do := func(change func(dir string) error) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		harm func(t *testing.T, dir string)
		file string
		deep bool // only Verify sees it
	}{
		"truncated disk": {
			harm: do(func(dir string) error { return os.Truncate(filepath.Join(dir, image.DiskFileRaw), 100) }),
			file: image.DiskFileRaw,
		},
		"changed disk":       {harm: flip(image.DiskFileRaw, diskSize-1), file: image.DiskFileRaw, deep: true},
		"written hole":       {harm: flip(image.DiskFileRaw, 5<<20), file: image.DiskFileRaw, deep: true},
		"changed kernel":     {harm: flip(image.KernelFile, 0), file: image.KernelFile, deep: true},
		"changed initramfs":  {harm: flip(image.InitrdFile, 3), file: image.InitrdFile, deep: true},
		"longer initramfs":   {harm: flip(image.InitrdFile, 99), file: image.InitrdFile},
		"manifest cut short": {harm: do(func(dir string) error { return os.Truncate(filepath.Join(dir, image.ManifestFile), 40) }), file: image.ManifestFile},
		"no manifest":        {harm: do(func(dir string) error { return os.Remove(filepath.Join(dir, image.ManifestFile)) }), file: image.ManifestFile},
		"no kernel":          {harm: do(func(dir string) error { return os.Remove(filepath.Join(dir, image.KernelFile)) }), file: image.KernelFile},
		"kernel a link": {harm: do(func(dir string) error {
			kernel := filepath.Join(dir, image.KernelFile)
			return errors.Join(os.Remove(kernel), os.Symlink("/etc/hostname", kernel))
		}), file: image.KernelFile},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			m := put(t, s, "latest", "one")
			tt.harm(t, s.Path(m.Digest))

			_, err := s.Resolve(m.Reference())
			if tt.deep {
				if err != nil {
					t.Fatalf("Resolve = %v, want the cheap check to pass", err)
				}
				err = s.Verify(t.Context(), m.Digest)
			}
			var corrupt *image.CorruptError
			if !errors.Is(err, image.ErrCorrupt) || !errors.As(err, &corrupt) || corrupt.File != tt.file {
				t.Fatalf("check = %v, want a CorruptError of %s", err, tt.file)
			}
			if image.Hint(err) == "" {
				t.Error("no hint")
			}
			if !tt.deep {
				infos, err := s.List(t.Context())
				if err != nil || len(infos) != 1 || !errors.Is(infos[0].Fault, image.ErrCorrupt) {
					t.Errorf("List = %+v, %v; want the corrupt image with its fault", infos, err)
				}
			}
			// Sealing the same image mends it.
			put(t, s, "latest", "one")
			if err := s.Verify(t.Context(), m.Digest); err != nil {
				t.Errorf("Verify after it was built again: %v", err)
			}
			if gone, err := s.Remove(m.Reference(), nil); !gone || err != nil {
				t.Errorf("Remove = %t, %v", gone, err)
			}
		})
	}
}

func TestVerifyStops(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	m := put(t, s, "latest", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Verify(ctx, m.Digest); !errors.Is(err, context.Canceled) || errors.Is(err, image.ErrCorrupt) {
		t.Errorf("Verify = %v, want context.Canceled and no corruption", err)
	}
}

// A digest is of the content, not of how it lies on disk.
func TestDiskDigestSparse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := make([]byte, diskSize)
	copy(data[6<<20:], "content")
	full, sparse := filepath.Join(dir, "full"), filepath.Join(dir, "sparse")
	if err := os.WriteFile(full, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(sparse)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("content"), 6<<20)
	if err := errors.Join(err, f.Truncate(diskSize), f.Close()); err != nil {
		t.Fatal(err)
	}
	a, err1 := image.DiskDigest(t.Context(), full)
	b, err2 := image.DiskDigest(t.Context(), sparse)
	if err := errors.Join(err1, err2); err != nil || a != b {
		t.Errorf("digests %v and %v, %v; want equal ones", a, b, err)
	}
}
