package tree_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/workspace/tree"
)

// pack is a directory as a guest packs it.
func pack(tb testing.TB, dir string) []byte {
	tb.Helper()
	out, err := exec.CommandContext(tb.Context(), "tar", "--format=posix", "--sort=name", "--sparse", "--numeric-owner", "-C", dir, "-cf", "-", ".").Output()
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func sh(tb testing.TB, dir, script string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
}

// differences is a diff in words.
func differences(t *testing.T, before, after []byte) []string {
	t.Helper()
	var got []string
	err := tree.Diff(tree.NewReader(t.Context(), bytes.NewReader(before)), tree.NewReader(t.Context(), bytes.NewReader(after)), func(c tree.Change) error {
		switch {
		case c.Before == nil:
			got = append(got, "+ "+c.After.Path)
		case c.After == nil:
			got = append(got, "- "+c.Before.Path)
		default:
			got = append(got, "! "+c.After.Path+" "+strings.Join(c.Fields, ","))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDiff(t *testing.T) {
	const begin = `umask 022; mkdir a a.b "a b" gone; echo 1 >a/1; echo 2 >a/2; ln -s x a/link; ln a/1 a/hard; mkfifo pipe
truncate -s 1M sparse; printf x | dd of=sparse bs=1 seek=700000 conv=notrunc status=none
touch gone/x a.b/x "a b/x"; printf 'new\nline' >"$(printf 'n\nl')"; find . -exec touch -h -d 2020-01-01 {} +`
	for _, tc := range []struct {
		name, change string
		want         []string
	}{
		{"nothing", ":", nil},
		{"dense", "cp --sparse=never sparse s2; mv s2 sparse; touch -d 2020-01-01 sparse .", nil},
		{"content", "printf 3 | dd of=a/2 bs=1 conv=notrunc status=none; touch -d 2020-01-01 a/2", []string{"! a/2 content"}},
		{"a zero more", "truncate -s +1 a/2; touch -d 2020-01-01 a/2", []string{"! a/2 content"}},
		{"in a hole", "printf x | dd of=sparse bs=1 seek=100000 conv=notrunc status=none; touch -d 2020-01-01 sparse", []string{"! sparse content"}},
		{"mode", "chmod 2750 a/2", []string{"! a/2 mode"}},
		{"time", "touch -d '2020-01-01 00:00:00.000000001' a/2", []string{"! a/2 time"}},
		{"link", "ln -sf y a/link; touch -h -d 2020-01-01 a/link a", []string{"! a/link link"}},
		{"kind", "rm pipe; mkdir pipe; touch -d 2020-01-01 pipe .", []string{"! pipe kind,mode"}},
		{"names", "mv a.b a.c; touch new; rm -r gone; touch -d 2020-01-01 .", []string{"- a.b", "- a.b/x", "+ a.c", "+ a.c/x", "- gone", "- gone/x", "+ new"}},
		{"no links", "cp a/1 x; mv x a/hard; touch -d 2020-01-01 a a/hard .", []string{"! a/hard kind"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			sh(t, dir, begin)
			before := pack(t, dir)
			sh(t, dir, tc.change)
			if diff := cmp.Diff(tc.want, differences(t, before, pack(t, dir))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAttributes: extended attributes and owners, which a test may not set, in
// archives that are made up.
func TestAttributes(t *testing.T) {
	one := func(h tar.Header) []byte {
		h.Name, h.Typeflag, h.ModTime = "./f", tar.TypeReg, time.Unix(1, 0)
		return archive(t, h)
	}
	user, acl := "SCHILY.xattr.user.colour", "SCHILY.acl.access"
	base := one(tar.Header{PAXRecords: map[string]string{user: "blue"}})
	for want, h := range map[string]tar.Header{
		"! f attributes":       {PAXRecords: map[string]string{user: "red"}},
		"! f owner,attributes": {PAXRecords: map[string]string{user: "blue", acl: "user::rw-"}, Uid: 7},
		"! f owner":            {PAXRecords: map[string]string{user: "blue"}, Gid: 7},
	} {
		if diff := cmp.Diff([]string{want}, differences(t, base, one(h))); diff != "" {
			t.Error(diff)
		}
	}
}

func archive(tb testing.TB, headers ...tar.Header) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.CopyN(w, strings.NewReader(strings.Repeat("x", int(h.Size))), h.Size); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestReaderRefuses(t *testing.T) {
	two := func(a, b string) []byte {
		return archive(t, tar.Header{Name: a, Typeflag: tar.TypeReg}, tar.Header{Name: b, Typeflag: tar.TypeReg})
	}
	file := archive(t, tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 200 << 10})
	for name, raw := range map[string][]byte{
		"unsorted": two("b", "a"), "twice": two("a", "./a"), "text": []byte(strings.Repeat("no tar", 200)),
		"cut in a file": file[:100<<10], "cut in a header": file[:300],
	} {
		r := tree.NewReader(t.Context(), bytes.NewReader(raw))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%s: it is taken for whole", name)
		}
		if cut := strings.HasPrefix(name, "cut"); cut != errors.Is(err, io.ErrUnexpectedEOF) || cut == errors.Is(err, tree.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompare(t *testing.T) {
	sorted := []string{".", "!", "a", "a/b", "a/b/c", "a/c", "a b", "a.b", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			got := tree.Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}

// FuzzReader: whatever a guest sends, entries are sorted and there is an end.
func FuzzReader(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "./a", Typeflag: tar.TypeReg, Size: 5}))
	dir := f.TempDir()
	sh(f, dir, "truncate -s 1M sparse; printf x | dd of=sparse bs=1 seek=700000 conv=notrunc status=none")
	f.Add(pack(f, dir))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := tree.NewReader(ctx, bytes.NewReader(raw))
		last := ""
		for i := 0; ; i++ {
			e, err := r.Next()
			if err != nil {
				return
			}
			if i > 0 && tree.Compare(last, e.Path) >= 0 {
				t.Fatalf("%q behind %q", e.Path, last)
			}
			last = e.Path
		}
	})
}
