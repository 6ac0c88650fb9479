package image_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/image"
)

const diskSize = 9 << 20 // two chunks and a part

func open(t *testing.T, dir string) *image.Store {
	t.Helper()
	s, err := image.Open(image.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fill writes the files of an image whose disk holds content at its end.
func fill(t *testing.T, d *image.Draft, content string) image.Manifest {
	t.Helper()
	for name, data := range map[string]string{
		image.KernelFile: "kernel", image.InitrdFile: "initrd", "left-over": "x",
	} {
		if err := os.WriteFile(d.Path(name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(d.Path(image.DiskFileRaw))
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(content), diskSize-int64(len(content)))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	m := validManifest()
	m, err = d.Digest(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func put(t *testing.T, s *image.Store, tag, content string) image.Manifest {
	t.Helper()
	d, err := s.Draft()
	if err != nil {
		t.Fatal(err)
	}
	m := fill(t, d, content)
	m.Tag = tag
	m.Build.Recipe = digest("1")
	m, err = d.Seal(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "images"))
	m := put(t, s, "latest", "one")

	for _, ref := range []string{"debian-xfce", "debian-xfce:latest", string(m.Digest), m.Digest.Short()} {
		r, err := image.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Resolve(r)
		if err != nil {
			t.Fatalf("Resolve(%s): %v", ref, err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Errorf("Resolve(%s) (-want +got):\n%s", ref, diff)
		}
	}
	want := []string{image.InitrdFile, image.ManifestFile, image.DiskFileRaw, image.KernelFile}
	if diff := cmp.Diff(want, names(t, s.Path(m.Digest))); diff != "" {
		t.Errorf("files of the image (-want +got):\n%s", diff)
	}
	if got, err := s.ByRecipe(t.Context(), digest("1")); err != nil || got.Digest != m.Digest {
		t.Errorf("ByRecipe = %v, %v", got.Digest, err)
	}
	if _, err := s.ByRecipe(t.Context(), digest("2")); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("ByRecipe of another = %v, want ErrNotFound", err)
	}
	if err := s.Verify(t.Context(), m.Digest); err != nil {
		t.Errorf("Verify: %v", err)
	}
	info, err := s.Inspect(m.Reference())
	if err != nil || info.Allocated == 0 || info.Allocated >= diskSize {
		t.Errorf("Inspect = %+v, %v; want a sparse image", info, err)
	}
	if diff := cmp.Diff([]string{"debian-xfce:latest"}, info.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

func TestResolveUnknown(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	ref := image.Reference{Name: "debian-gnome", Tag: "latest"}
	_, err := s.Resolve(ref)
	if !errors.Is(err, image.ErrNotFound) || !strings.Contains(image.Hint(err), "image build") {
		t.Errorf("Resolve in an empty store = %v, hint %q", err, image.Hint(err))
	}
	put(t, s, "latest", "one")
	_, err = s.Resolve(ref)
	if !errors.Is(err, image.ErrNotFound) || !strings.Contains(image.Hint(err), "debian-xfce:latest") {
		t.Errorf("Resolve = %v, hint %q; want what there is", err, image.Hint(err))
	}
	for _, r := range []image.Reference{{Name: "../x", Tag: "latest"}, {Name: "x", Tag: ".."}, {Digest: "../../../etc"}, {}} {
		if _, err := s.Resolve(r); !errors.Is(err, image.ErrBadReference) {
			t.Errorf("Resolve(%+v) = %v, want ErrBadReference", r, err)
		}
	}
}

func TestSealTwice(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	first := put(t, s, "latest", "one")
	second := put(t, s, "next", "one")
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second is not the first (-first +second):\n%s", diff)
	}
	infos, err := s.List(t.Context())
	if err != nil || len(infos) != 1 {
		t.Fatalf("List = %d images, %v; want one", len(infos), err)
	}
	if diff := cmp.Diff([]string{"debian-xfce:latest", "debian-xfce:next"}, infos[0].Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{".lock", ".tags", first.Digest.Hex()}, names(t, s.Dir())); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
}

func TestSealRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	d, err := s.Draft()
	if err != nil {
		t.Fatal(err)
	}
	m := fill(t, d, "one")
	m.Boot.Cmdline = "changed after the digest"
	if _, err := d.Seal(t.Context(), m); !errors.Is(err, image.ErrBadManifest) {
		t.Errorf("Seal = %v, want ErrBadManifest", err)
	}
	if err := errors.Join(d.Abort(), d.Abort()); err != nil {
		t.Errorf("Abort: %v", err)
	}
	if diff := cmp.Diff([]string{".lock", ".tags"}, names(t, s.Dir())); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	m := put(t, s, "latest", "one")
	put(t, s, "next", "one")

	gone, err := s.Remove(image.Reference{Name: "debian-xfce", Tag: "next"}, func(image.Digest) error {
		t.Error("asked for users although only a tag goes")
		return nil
	})
	if gone || err != nil {
		t.Errorf("Remove of one of two tags = %t, %v", gone, err)
	}
	used := func(d image.Digest) error { return &image.InUseError{Image: string(d), By: "desktop d-1"} }
	if gone, err := s.Remove(m.Reference(), used); gone || !errors.Is(err, image.ErrInUse) ||
		!strings.Contains(image.Hint(err), "d-1") || strings.Count(err.Error(), "remove image") != 1 {
		t.Errorf("Remove while in use = %t, %v, hint %q", gone, err, image.Hint(err))
	}
	if _, err := s.Get(m.Digest); err != nil {
		t.Errorf("Get after a refused removal: %v", err)
	}
	if gone, err := s.Remove(image.Reference{Digest: m.Digest.Short()}, nil); !gone || err != nil {
		t.Errorf("Remove = %t, %v", gone, err)
	}
	if _, err := s.Remove(m.Reference(), nil); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("Remove again = %v, want ErrNotFound", err)
	}
	if diff := cmp.Diff([]string{".lock", ".tags"}, names(t, s.Dir())); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
}

func TestOpenCollects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	live, err := s.Draft()
	if err != nil {
		t.Fatal(err)
	}
	for _, dead := range []string{".tmp-dead/root/etc", ".tmp-rm-1/image"} {
		if err := os.MkdirAll(filepath.Join(dir, dead), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	if diff := cmp.Diff([]string{".lock", ".tags", filepath.Base(live.Path("."))}, names(t, dir)); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
	if _, err := live.Seal(t.Context(), fill(t, live, "one")); err != nil {
		t.Errorf("Seal of the live draft: %v", err)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := put(t, open(t, dir), "latest", "one")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s := open(t, dir)
			if m := put(t, s, "latest", "one"); m.Digest != want.Digest {
				t.Errorf("put = %s", m.Digest)
			}
			if _, err := s.Resolve(want.Reference()); err != nil {
				t.Errorf("Resolve: %v", err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff([]string{".lock", ".tags", want.Digest.Hex()}, names(t, dir)); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
}

func TestListNewestFirst(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var want []image.Digest
	for i, content := range []string{"one", "two", "three"} {
		d, err := s.Draft()
		if err != nil {
			t.Fatal(err)
		}
		m := fill(t, d, content)
		m.Created = m.Created.Add(time.Duration(i) * time.Hour)
		if m, err = d.Seal(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		want = append([]image.Digest{m.Digest}, want...)
	}
	infos, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []image.Digest
	for _, i := range infos {
		got = append(got, i.Manifest.Digest)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("List with a context that ended = %v", err)
	}
}
