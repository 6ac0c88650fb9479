package transfer_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/cli/transfer"
)

// tree describes what is below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			what = "-> " + to
		}
		rel, err := filepath.Rel(dir, p)
		found[rel] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func write(t *testing.T, name, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func TestThereAndBack(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	write(t, filepath.Join(src, "a"), "A", 0o644)
	write(t, filepath.Join(src, "sub", "run ü"), "B", 0o755)
	write(t, filepath.Join(src, "closed", "c"), "", 0o400)
	if err := os.Symlink("../a", filepath.Join(src, "sub", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(src, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(src, "closed"), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(src, "closed"), 0o700) })
	for _, name := range []string{".", "new"} {
		t.Run(name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := transfer.Pack(&buf, src, "."); err != nil {
				t.Fatal(err)
			}
			dst := t.TempDir()
			if err := transfer.Unpack(&buf, dst, name); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(dst, name, "closed"), 0o700) })
			if diff := cmp.Diff(tree(t, src), tree(t, filepath.Join(dst, name))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPackNames(t *testing.T) {
	src := t.TempDir()
	write(t, filepath.Join(src, "d", "f"), "x", 0o644)
	for _, tc := range []struct {
		name string
		want []string
	}{
		{".", []string{"d/", "d/f"}},
		{"top", []string{"top/", "top/d/", "top/d/f"}},
	} {
		var buf bytes.Buffer
		if err := transfer.Pack(&buf, src, tc.name); err != nil {
			t.Fatal(err)
		}
		var got []string
		for in := tar.NewReader(&buf); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, h.Name)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// archive makes a tar stream of headers; regular files hold "evil".
func archive(tb testing.TB, headers ...*tar.Header) io.Reader {
	tb.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		h.Mode = 0o755
		if err := w.WriteHeader(h); err != nil {
			tb.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, "evil"); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return &buf
}

// TestUnpackStaysInside: a guest cannot write elsewhere on this machine.
func TestUnpackStaysInside(t *testing.T) {
	for _, tc := range []struct {
		name    string
		entries []*tar.Header
	}{
		{"dots", []*tar.Header{{Name: "../../escaped", Typeflag: tar.TypeReg}}},
		{"absolute", []*tar.Header{{Name: "/escaped", Typeflag: tar.TypeReg}}},
		{"through a symlink", []*tar.Header{
			{Name: "l", Linkname: "..", Typeflag: tar.TypeSymlink}, {Name: "l/escaped", Typeflag: tar.TypeReg},
		}},
		{"over a symlink", []*tar.Header{
			{Name: "l", Linkname: "../victim", Typeflag: tar.TypeSymlink}, {Name: "l", Typeflag: tar.TypeReg},
		}},
		{"directory over a symlink", []*tar.Header{
			{Name: "l", Linkname: "..", Typeflag: tar.TypeSymlink}, {Name: "l/", Typeflag: tar.TypeDir},
		}},
		{"hard link outside", []*tar.Header{{Name: "h", Linkname: "../victim", Typeflag: tar.TypeLink}, {Name: "h", Typeflag: tar.TypeReg}}},
		{"hard link to a symlink", []*tar.Header{
			{Name: "l", Linkname: "../victim", Typeflag: tar.TypeSymlink},
			{Name: "h", Linkname: "l", Typeflag: tar.TypeLink},
			{Name: "h", Typeflag: tar.TypeReg},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			outer := t.TempDir()
			victim := filepath.Join(outer, "victim")
			write(t, victim, "safe", 0o600)
			dst := filepath.Join(outer, "dst")
			if err := os.Mkdir(dst, 0o755); err != nil {
				t.Fatal(err)
			}
			err := transfer.Unpack(archive(t, tc.entries...), dst, "in")
			found := tree(t, outer)
			if found["victim"] != "-rw------- safe" || found["escaped"] != "" || len(found) > 6 {
				t.Errorf("%v; left %v", err, found)
			}
			for name := range found {
				if name != "victim" && name != "dst" && !strings.HasPrefix(name, "dst/in") {
					t.Errorf("wrote %s", name)
				}
			}
		})
	}
}

func TestUnpackErrors(t *testing.T) {
	if err := transfer.Unpack(strings.NewReader("no tar at all, and longer than a block"+strings.Repeat("x", 600)), t.TempDir(), "."); err == nil {
		t.Error("garbage passed")
	}
	whole, err := io.ReadAll(archive(t, &tar.Header{Name: "f", Typeflag: tar.TypeReg, ModTime: time.Unix(1, 0)}))
	if err != nil {
		t.Fatal(err)
	}
	if err := transfer.Unpack(bytes.NewReader(whole[:514]), t.TempDir(), "."); err == nil {
		t.Error("half an archive passed")
	}
	if err := transfer.Pack(io.Discard, filepath.Join(t.TempDir(), "none"), "."); err == nil {
		t.Error("packed what is not there")
	}
}

func FuzzUnpack(f *testing.F) {
	whole, err := io.ReadAll(archive(f, &tar.Header{Name: "d/", Typeflag: tar.TypeDir}, &tar.Header{Name: "d/f", Typeflag: tar.TypeReg}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, raw []byte) {
		outer := t.TempDir()
		dst := filepath.Join(outer, "dst")
		if err := os.Mkdir(dst, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = transfer.Unpack(bytes.NewReader(raw), dst, ".")
		left, err := os.ReadDir(outer)
		if err != nil || len(left) != 1 {
			t.Errorf("%v, %v", left, err)
		}
	})
}
