package client_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteAndRead(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b", "fïle\n.txt")
	fi, err := c.Files.Write(soon(t), file, client.WriteOptions{MakeParents: true, Mode: 0o640}, strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	if fi.Size != 10 || fi.Mode != 0o640 || fi.Type != guest.TypeFile || fi.Path != file || fi.User == "" {
		t.Errorf("info %+v", fi)
	}
	for name, tt := range map[string]struct {
		off, n int64
		want   string
	}{
		"all":       {0, -1, "0123456789"},
		"range":     {3, 4, "3456"},
		"tail":      {8, -1, "89"},
		"over end":  {8, 100, "89"},
		"nothing":   {2, 0, ""},
		"after end": {50, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, fi, err := c.Files.Read(soon(t), file, tt.off, tt.n)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			b, err := io.ReadAll(r)
			if err != nil || string(b) != tt.want || fi.Size != 10 {
				t.Errorf("%q, size %d, %v; want %q", b, fi.Size, err, tt.want)
			}
		})
	}
	steps := []struct {
		name string
		o    client.WriteOptions
		data string
		want string
	}{
		{"append", client.WriteOptions{Append: true}, "ab", "0123456789ab"},
		{"offset", client.WriteOptions{Offset: 4}, "XY", "0123XY6789ab"},
		{"replace", client.WriteOptions{}, "new", "new"},
	}
	for _, s := range steps {
		if fi, err := c.Files.Write(soon(t), file, s.o, strings.NewReader(s.data)); err != nil || fi.Mode != 0o640 {
			t.Errorf("%s: mode %o, %v", s.name, fi.Mode, err)
		}
		if got := read(t, file); got != s.want {
			t.Errorf("%s: %q, want %q", s.name, got, s.want)
		}
	}
	if _, err := c.Files.Write(soon(t), file, client.WriteOptions{Exclusive: true}, strings.NewReader("x")); !errors.Is(err, code(guest.CodeExists)) {
		t.Errorf("exclusive: %v", err)
	}
	if _, err := c.Files.Write(soon(t), file+"2", client.WriteOptions{Exclusive: true}, strings.NewReader("x")); err != nil {
		t.Errorf("exclusive, new: %v", err)
	}
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Files.Write(soon(t), filepath.Join(dir, "link"), client.WriteOptions{}, strings.NewReader("through")); err != nil {
		t.Error(err)
	}
	if fi, err := c.Files.Stat(soon(t), filepath.Join(dir, "link")); err != nil || fi.Type != guest.TypeSymlink || fi.Target != file || read(t, file) != "through" {
		t.Errorf("write through a link: %+v, %v", fi, err)
	}
}

func TestFileRefusals(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	stat := func(p string) error { _, err := c.Files.Stat(soon(t), p); return err }
	readAll := func(p string) error { _, _, err := c.Files.Read(soon(t), p, 0, -1); return err }
	put := func(p string) error {
		_, err := c.Files.Write(soon(t), p, client.WriteOptions{}, strings.NewReader("y"))
		return err
	}
	for name, tt := range map[string]struct {
		err  error
		want guest.Code
	}{
		"missing":         {stat(dir + "/none"), guest.CodeNotFound},
		"empty":           {stat(""), guest.CodeInvalid},
		"nul":             {stat("a\x00b"), guest.CodeInvalid},
		"long":            {stat("/" + strings.Repeat("x/", 4000)), guest.CodeInvalid},
		"below a file":    {stat(dir + "/file/x"), guest.CodeNotDir},
		"read dir":        {readAll(dir), guest.CodeIsDir},
		"read pipe":       {readAll(dir + "/pipe"), guest.CodeInvalid},
		"read device":     {readAll("/dev/zero"), guest.CodeInvalid},
		"write dir":       {put(dir), guest.CodeIsDir},
		"write pipe":      {put(dir + "/pipe"), guest.CodeInvalid},
		"write no parent": {put(dir + "/none/x"), guest.CodeNotFound},
		"remove full":     {c.Files.Remove(soon(t), dir, false), guest.CodeNotEmpty},
		"remove missing":  {c.Files.Remove(soon(t), dir+"/none", true), guest.CodeNotFound},
		"remove root":     {c.Files.Remove(soon(t), "/tmp/..", true), guest.CodeInvalid},
		"rename missing":  {c.Files.Rename(soon(t), dir+"/none", dir+"/x"), guest.CodeNotFound},
		"chown to nobody": {c.Files.Chown(soon(t), dir+"/file", "no-such-user", ""), guest.CodeNotFound},
		"as unknown":      {func() error { _, err := c.Files.As("no-such-user").Stat(soon(t), "/"); return err }(), guest.CodeNotFound},
		"list a file":     {func() error { _, err := c.Files.List(soon(t), dir+"/file", false); return err }(), guest.CodeNotDir},
		"watch missing":   {func() error { _, err := c.Files.Watch(soon(t), dir+"/none", true); return err }(), guest.CodeNotFound},
		"tar missing":     {func() error { _, err := c.Files.TarOut(soon(t), dir+"/none"); return err }(), guest.CodeNotFound},
		"append and offset": {func() error {
			_, err := c.Files.Write(soon(t), dir+"/file", client.WriteOptions{Append: true, Offset: 1}, strings.NewReader(""))
			return err
		}(), guest.CodeInvalid},
	} {
		if !errors.Is(tt.err, code(tt.want)) {
			t.Errorf("%s: got %v, want %s", name, tt.err, tt.want)
		}
	}
	if diff := cmp.Diff([]string{"file", "pipe"}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenUploadLeavesTheOldFile(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "old")
	fault := errors.New("source broke")
	for name, body := range map[string]func(context.CancelFunc) io.Reader{
		"source fails": func(context.CancelFunc) io.Reader {
			return io.MultiReader(noise(1, 1<<20), iotest.ErrReader(fault))
		},
		"cancelled": func(cancel context.CancelFunc) io.Reader {
			return io.MultiReader(noise(1, 1<<20), hook(cancel), noise(2, 1<<20))
		},
		"link cut": func(context.CancelFunc) io.Reader {
			return io.MultiReader(noise(1, 1<<20), hook(g.Cut), noise(2, 4<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			if _, err := c.Files.Write(ctx, file, client.WriteOptions{}, body(cancel)); err == nil {
				t.Error("the upload succeeded")
			}
			if got := read(t, file); got != "old" {
				t.Errorf("the file is now %d bytes", len(got))
			}
			waitFor(t, func() bool { return len(names(t, dir)) == 1 })
		})
	}
}

// hook is a reader of nothing that does something.
func hook(fn func()) io.Reader {
	return readerFunc(func([]byte) (int, error) { fn(); return 0, io.EOF })
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("it did not come about")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestLargeFile(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	file := filepath.Join(t.TempDir(), "large")
	const size = 64<<20 + 1
	sum := sha256.New()
	if _, err := c.Files.Write(soon(t), file, client.WriteOptions{}, io.TeeReader(noise(4, size), sum)); err != nil {
		t.Fatal(err)
	}
	r, fi, err := c.Files.Read(soon(t), file, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	back := sha256.New()
	if n, err := io.Copy(back, r); err != nil || n != size || fi.Size != size {
		t.Errorf("%d bytes, %v", n, err)
	}
	if !bytes.Equal(sum.Sum(nil), back.Sum(nil)) {
		t.Error("the bytes differ")
	}
}

// TestNoSpace lowers the process's own limit of file size, which the kernel
// answers as it answers a full disk.
func TestNoSpace(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "old")
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 8 << 20, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}()
	_, err := c.Files.Write(soon(t), filepath.Join(dir, "file"), client.WriteOptions{}, noise(1, 20<<20))
	if !errors.Is(err, code(guest.CodeNoSpace)) {
		t.Errorf("write: %v", err)
	}
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	if err := tw.WriteHeader(&tar.Header{Name: "big", Mode: 0o644, Size: 20 << 20}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(tw, noise(1, 20<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Files.TarIn(soon(t), dir, &archive); !errors.Is(err, code(guest.CodeNoSpace)) {
		t.Errorf("unpack: %v", err)
	}
	if diff := cmp.Diff([]string{"file"}, names(t, dir)); diff != "" || read(t, filepath.Join(dir, "file")) != "old" {
		t.Errorf("left behind: %s", diff)
	}
}

func TestDirectories(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	at := func(p string) string { return filepath.Join(dir, p) }
	if _, err := c.Files.Mkdir(soon(t), at("a/b"), 0, false); !errors.Is(err, code(guest.CodeNotFound)) {
		t.Errorf("mkdir without parents: %v", err)
	}
	if fi, err := c.Files.Mkdir(soon(t), at("a/b"), 0o711, true); err != nil || fi.Type != guest.TypeDir {
		t.Fatalf("mkdir: %+v, %v", fi, err)
	}
	if _, err := c.Files.Mkdir(soon(t), at("a"), 0, false); !errors.Is(err, code(guest.CodeExists)) {
		t.Errorf("mkdir again: %v", err)
	}
	write(t, at("a/b/f"), "12345")
	if err := os.Symlink("nowhere", at("a/l")); err != nil {
		t.Fatal(err)
	}
	list, err := c.Files.List(soon(t), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]guest.FileType{}
	for _, fi := range list {
		got[fi.Path] = fi.Type
	}
	want := map[string]guest.FileType{at("a"): guest.TypeDir, at("a/b"): guest.TypeDir, at("a/b/f"): guest.TypeFile, at("a/l"): guest.TypeSymlink}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if list, err := c.Files.List(soon(t), at("a"), false); err != nil || len(list) != 2 {
		t.Errorf("flat list: %v, %v", list, err)
	}
	if err := errors.Join(
		c.Files.Rename(soon(t), at("a/b/f"), at("a/g")),
		c.Files.Chmod(soon(t), at("a/g"), 0o600),
		c.Files.Chown(soon(t), at("a/g"), fmt.Sprint(os.Getuid()), ""),
	); err != nil {
		t.Error(err)
	}
	if fi, err := c.Files.Stat(soon(t), at("a/./b/../g")); err != nil || fi.Mode != 0o600 || fi.Size != 5 {
		t.Errorf("stat %+v, %v", fi, err)
	}
	if err := c.Files.Remove(soon(t), at("a"), true); err != nil || len(names(t, dir)) != 0 {
		t.Errorf("remove: %v", err)
	}
}
