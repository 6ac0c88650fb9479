package client_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
)

func TestTarRoundTrip(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "made")
	odd := []string{"plain", "sp ace", "new\nline", "ünï", "\xff\xfe", "-dash", "a=b", strings.Repeat("n", 250)}
	for i, name := range odd {
		write(t, filepath.Join(src, name), strings.Repeat(name, i*1000))
	}
	long := filepath.Join(src, strings.Repeat("d", 200), strings.Repeat("e", 200))
	if err := os.MkdirAll(long, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(long, "deep"), "deep")
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := errors.Join(
		os.Link(filepath.Join(src, "plain"), filepath.Join(src, "zweiter")),
		os.Symlink("/etc/passwd", filepath.Join(src, "absolute")),
		os.Symlink("../..", filepath.Join(src, "up")),
		os.Mkdir(filepath.Join(src, "empty"), 0o700),
		os.Mkdir(filepath.Join(src, "locked"), 0o700),
		os.WriteFile(filepath.Join(src, "locked", "in"), []byte("in"), 0o400),
		os.Chmod(filepath.Join(src, "locked"), 0o555),
		os.Chtimes(filepath.Join(src, "plain"), when, when),
		syscall.Mkfifo(filepath.Join(src, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	r, err := c.Files.TarOut(soon(t), src)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 { // unpacking over what is there is no error
		var archive bytes.Buffer
		if _, err := archive.ReadFrom(r); err != nil {
			t.Fatal(err)
		}
		if archive.Len() == 0 {
			break
		}
		packed := archive.Bytes()
		for range 2 {
			if _, err := c.Files.TarIn(soon(t), dst, bytes.NewReader(packed)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Remove(filepath.Join(src, "pipe")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot(t, src), snapshot(t, dst)); diff != "" {
		t.Error(diff)
	}
	a, err1 := os.Stat(filepath.Join(dst, "plain"))
	b, err2 := os.Stat(filepath.Join(dst, "zweiter"))
	if err1 != nil || err2 != nil || !os.SameFile(a, b) || !a.ModTime().Equal(when) {
		t.Errorf("hard link or time lost: %v, %v, %v", err1, err2, a.ModTime())
	}
	if err := os.Chmod(filepath.Join(src, "locked"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dst, "locked"), 0o755); err != nil {
		t.Fatal(err)
	}
	one, err := c.Files.TarOut(soon(t), filepath.Join(src, "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if h, err := tar.NewReader(one).Next(); err != nil || h.Name != "plain" {
		t.Errorf("one file: %+v, %v", h, err)
	}
}

// snapshot describes a tree: modes, contents and link targets by name.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		what := fi.Mode().String()
		if d.Type().IsRegular() {
			what += " " + read(t, p)
		}
		if target, err := os.Readlink(p); err == nil {
			what += " " + target
		}
		rel, err := filepath.Rel(dir, p)
		tree[rel] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestTarInRefuses(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "victim"), "safe")
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: "way", Linkname: outside}
	file := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4777, Size: 1}
	}
	for name, entries := range map[string][]tar.Header{
		"absolute":               {file("/" + strings.TrimPrefix(outside, "/") + "/x")},
		"dots":                   {file("../x")},
		"dots within":            {file("a/../../x")},
		"through a link":         {link, file("way/x")},
		"over the linked file":   {link, file("way/victim")},
		"dir through a link":     {link, {Typeflag: tar.TypeDir, Name: "way/dir"}},
		"link through a link":    {link, {Typeflag: tar.TypeSymlink, Name: "way/l", Linkname: "x"}},
		"hard link outside":      {{Typeflag: tar.TypeLink, Name: "h", Linkname: outside + "/victim"}},
		"hard link by dots":      {{Typeflag: tar.TypeLink, Name: "h", Linkname: "../victim"}},
		"hard link through link": {link, {Typeflag: tar.TypeLink, Name: "h", Linkname: "way/victim"}},
		"device":                 {{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}},
		"pipe":                   {{Typeflag: tar.TypeFifo, Name: "pipe"}},
		"itself":                 {file(".")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var archive bytes.Buffer
			tw := tar.NewWriter(&archive)
			for _, h := range entries {
				if err := tw.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
				if _, err := tw.Write(make([]byte, h.Size)); err != nil {
					t.Fatal(err)
				}
			}
			if err := tw.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Files.TarIn(soon(t), dir, &archive); !errors.Is(err, code(guest.CodeInvalid)) {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff([]string{"victim"}, names(t, outside)); diff != "" || read(t, outside+"/victim") != "safe" {
				t.Errorf("outside was touched: %s", diff)
			}
		})
	}
	t.Run("garbage", func(t *testing.T) {
		if _, err := c.Files.TarIn(soon(t), t.TempDir(), noise(5, 100<<10)); !errors.Is(err, code(guest.CodeInvalid)) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("set-id is dropped", func(t *testing.T) {
		dir := t.TempDir()
		var archive bytes.Buffer
		tw := tar.NewWriter(&archive)
		h := file("suid")
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		res, err := c.Files.TarIn(soon(t), dir, &archive)
		fi, statErr := os.Stat(dir + "/suid")
		if err != nil || statErr != nil || fi.Mode() != 0o777 || res.Entries != 1 || res.Bytes != 1 {
			t.Errorf("%+v, %v, %v", res, err, statErr)
		}
	})
}
