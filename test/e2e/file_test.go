//go:build integration

package e2e_test

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
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestFileRoundTrip has no size cliff: it moves files on both sides of every
// likely buffer, and compares hashes made in the guest.
func TestFileRoundTrip(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	for _, size := range []int64{0, 1, 65_535, 65_537, 1 << 20, 70 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			sent, got := sha256.New(), sha256.New()
			file := fmt.Sprintf("%s/%d", dir, size)
			info, err := d.Files().Write(t.Context(), file, io.TeeReader(io.LimitReader(&pattern{}, size), sent), client.WriteOptions{Mode: 0o640})
			if err != nil {
				t.Fatal(err)
			}
			if info.Size != size || info.Mode != 0o640 || info.User != "agent" {
				t.Errorf("info = %+v", info)
			}
			want := fmt.Sprintf("%x", sent.Sum(nil))
			if there := strings.Fields(d.sh(t, "sha256sum "+file))[0]; there != want {
				t.Errorf("in the guest %s, sent %s", there, want)
			}
			r, err := d.Files().Open(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.Copy(got, r); err != nil {
				t.Fatal(err)
			}
			if back := fmt.Sprintf("%x", got.Sum(nil)); back != want {
				t.Errorf("back %s, sent %s", back, want)
			}
		})
	}
}

func TestFileRange(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	d.put(t, dir+"/digits", "0123456789")
	r, err := d.Files().OpenRange(t.Context(), dir+"/digits", 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, _ := io.ReadAll(r); string(got) != "3456" {
		t.Errorf("got %q", got)
	}
}

// TestFileReplaceIsAtomic cuts an upload in the middle: the old file stays,
// and nothing is left beside it.
func TestFileReplaceIsAtomic(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	d.put(t, dir+"/keep", "old")
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.CopyN(pw, &pattern{}, 4<<20)
		cancel()
		pw.CloseWithError(context.Canceled)
	}()
	if _, err := d.Files().Write(ctx, dir+"/keep", pr, client.WriteOptions{}); err == nil {
		t.Fatal("the cut upload succeeded")
	}
	d.until(t, 30*time.Second, "only the old file", func(context.Context) error {
		if ls := d.sh(t, "ls -A "+dir); ls != "keep\n" {
			return fmt.Errorf("folder holds %q", ls)
		}
		return nil
	})
	if got := d.get(t, dir+"/keep"); got != "old" {
		t.Errorf("file is %q", got)
	}
}

func TestFileVerbs(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	ctx, files := t.Context(), d.Files()
	if err := files.Mkdir(ctx, api.Mkdir{Path: dir + "/a/b", Parents: true}); err != nil {
		t.Fatal(err)
	}
	d.put(t, dir+"/a/ö 文", "x")
	d.sh(t, "ln -s /etc/hostname "+dir+"/a/link")
	entries, err := files.List(ctx, dir+"/a")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name+" "+string(e.Type))
	}
	if want := "b dir,link symlink,ö 文 file"; strings.Join(got, ",") != want {
		t.Errorf("list = %v, want %s", got, want)
	}
	if err := files.Chmod(ctx, dir+"/a/ö 文", 0o600); err != nil {
		t.Error(err)
	}
	if err := files.Rename(ctx, dir+"/a/ö 文", dir+"/a/b/new"); err != nil {
		t.Error(err)
	}
	if got := d.sh(t, "stat -c %a "+dir+"/a/b/new"); got != "600\n" {
		t.Errorf("mode %s", got)
	}
	code(t, files.Remove(ctx, dir+"/a", false), api.CodeConflict)
	if err := files.Remove(ctx, dir+"/a", true); err != nil {
		t.Error(err)
	}
	_, err = files.Stat(ctx, dir+"/a")
	code(t, err, api.CodeNotFound)
	_, err = files.Read(ctx, "/etc/shadow")
	code(t, err, api.CodePermission)
}

func TestFileArchive(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	var packed bytes.Buffer
	tw := tar.NewWriter(&packed)
	for name, body := range map[string]string{"tree/one": "1", "tree/sub/zwei": "2", "tree/sub/三": "3"} {
		_ = tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body)), Typeflag: tar.TypeReg})
		_, _ = io.WriteString(tw, body)
	}
	_ = tw.Close()
	if err := d.Files().Extract(t.Context(), dir, &packed); err != nil {
		t.Fatal(err)
	}
	if got := d.sh(t, "cd "+dir+" && find tree -type f | LC_ALL=C sort | xargs cat"); got != "123" {
		t.Errorf("extracted %q", got)
	}
	r, err := d.Files().Archive(t.Context(), dir+"/tree")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	names := map[string]bool{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = true
	}
	if !names["sub/三"] || !names["one"] {
		t.Errorf("archive holds %v", names)
	}
}

// TestArchiveStaysInside: entries that climb out or lead through a link are
// refused, and nothing outside changes.
func TestArchiveStaysInside(t *testing.T) {
	d := lend(t)
	for name, h := range map[string]*tar.Header{
		"dotdot":   {Name: "../../escaped", Typeflag: tar.TypeReg},
		"absolute": {Name: "/tmp/e2e/escaped", Typeflag: tar.TypeReg},
		"link":     {Name: "out/escaped", Typeflag: tar.TypeReg},
	} {
		t.Run(name, func(t *testing.T) {
			dir := d.folder(t) + "/in"
			d.sh(t, "mkdir "+dir)
			var packed bytes.Buffer
			tw := tar.NewWriter(&packed)
			_ = tw.WriteHeader(&tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: "/tmp/e2e"})
			_ = tw.WriteHeader(h)
			_ = tw.Close()
			err := d.Files().Extract(t.Context(), dir, &packed)
			if found := d.sh(t, "find /tmp /home -name escaped 2>/dev/null | grep -v "+dir+" || true"); found != "" {
				t.Errorf("escaped to %s (error %v)", found, err)
			}
		})
	}
}

func TestFileWatch(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make(chan string, 100)
	go func() {
		defer close(seen)
		for change, err := range d.Files().Watch(ctx, dir, true) {
			if err != nil {
				return
			}
			seen <- change.Op + " " + change.Path
		}
	}()
	// A watch has begun when it reports a change, so repeat until one comes.
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case got := <-seen:
			if strings.Contains(got, dir+"/f") {
				return
			}
		case <-tick.C:
			d.put(t, fmt.Sprintf("%s/f%d", dir, n), "x")
		case <-ctx.Done():
			t.Fatal("no change was reported")
		}
	}
}

func TestWorkspace(t *testing.T) {
	d := lend(t)
	if got := d.sh(t, "findmnt -no SOURCE,FSTYPE /workspace; stat -c %U /workspace"); got != "/dev/vdb ext4\nagent\n" {
		t.Errorf("workspace: %q", got)
	}
}

// TestWorkspaceFull puts 600 MiB into 512: a clear error, nothing left, and
// the space is there again.
func TestWorkspaceFull(t *testing.T) {
	d := lend(t)
	_, err := d.Files().Write(t.Context(), "/workspace/big", io.LimitReader(&pattern{}, 600<<20), client.WriteOptions{})
	code(t, err, api.CodeNoSpace)
	if got := d.sh(t, "ls -A /workspace | grep -v lost+found || true"); got != "" {
		t.Errorf("left behind: %q", got)
	}
	if _, err := d.Files().Write(t.Context(), "/workspace/small", io.LimitReader(&pattern{}, 64<<20), client.WriteOptions{}); err != nil {
		t.Errorf("after the full disk: %v", err)
	}
	d.sh(t, "rm /workspace/small")
}

// TestCopyCommand is `vmhost cp` both ways, with a folder and standard input
// and output.
func TestCopyCommand(t *testing.T) {
	d := lend(t)
	dir, local := d.folder(t), t.TempDir()
	if err := os.MkdirAll(filepath.Join(local, "tree/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"tree/a": "A", "tree/sub/b": "B"} {
		if err := os.WriteFile(filepath.Join(local, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, status := cli(t, "", "cp", filepath.Join(local, "tree"), d.Info.Name+":"+dir); status != 0 {
		t.Fatalf("cp in: %d %s", status, out)
	}
	if got := d.sh(t, "cat "+dir+"/tree/a "+dir+"/tree/sub/b"); got != "AB" {
		t.Errorf("in the guest: %q", got)
	}
	if out, status := cli(t, "", "cp", d.Info.Name+":"+dir+"/tree", filepath.Join(local, "back")); status != 0 {
		t.Fatalf("cp out: %d %s", status, out)
	}
	got, err := os.ReadFile(filepath.Join(local, "back/sub/b"))
	if err != nil || string(got) != "B" {
		t.Errorf("back: %q, %v", got, err)
	}
	if _, status := cli(t, "piped", "cp", "-", d.Info.Name+":"+dir+"/piped"); status != 0 {
		t.Fatalf("cp from standard input: %d", status)
	}
	if out, status := cli(t, "", "cp", d.Info.Name+":"+dir+"/piped", "-"); status != 0 || out != "piped" {
		t.Errorf("cp to standard output: %d %q", status, out)
	}
}
