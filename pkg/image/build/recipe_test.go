package build_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/image/build"
)

const smallRecipe = `name: small
debian:
  suite: bookworm
  variant: minbase
  components: [main]
  mirror: http://deb.debian.org/debian
epoch: 2026-01-01T00:00:00Z
packages: [busybox-static]
exclude: [/usr/share/doc/*]
include: [/usr/share/doc/*/copyright]
kernel:
  package: linux-image-cloud-amd64
  modules: [virtio_blk]
  cmdline: root=/dev/vda rw
disk:
  size_mib: 2048
  content_mib: 400
  label: small
  uuid: 00000000-0000-4000-8000-000000000001
  hash_seed: 00000000-0000-4000-8000-000000000002
guest: {os: linux, hostname: small, user: agent, uid: 1000, display: 640x480}
hooks: [hooks/clean.sh]
`

// writeRecipe makes a recipe's directory with an overlay and a hook.
func writeRecipe(t *testing.T, recipe string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{
		build.RecipeFile:       recipe,
		"overlay/etc/motd":     "hello\n",
		"overlay/usr/bin/tool": "#!/bin/sh\n",
		"hooks/clean.sh":       "#!/bin/sh\nset -eu\nrm -rf /var/log/* /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old\n",
		"unrelated":            "not part of the recipe",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(data, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	t.Parallel()
	r, err := build.Load(writeRecipe(t, smallRecipe))
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "small" || r.Tag != image.DefaultTag || len(r.Hooks) != 1 || r.Epoch.Unix() != 1767225600 {
		t.Errorf("Load = %+v", r)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	edit := func(from, to string) string { return strings.Replace(smallRecipe, from, to, 1) }
	tests := map[string]struct{ recipe, says string }{
		"empty":               {"", "is empty"},
		"no YAML":             {"name: [", "line 1"},
		"unknown field":       {edit("  label: small", "  lable: small"), "line 18: field lable not found"},
		"doubled field":       {smallRecipe + "name: again\n", "already"},
		"second document":     {smallRecipe + "---\nname: two\n", "more than one document"},
		"list for a word":     {edit("name: small", "name: [a]"), "line 1"},
		"size of words":       {edit("2048", "much"), "line 16"},
		"size too small":      {edit("2048", "1"), "disk.size_mib"},
		"name of a path":      {edit("name: small", "name: ../small"), "name"},
		"option for package":  {edit("busybox-static", "--hook=x"), "packages"},
		"comma in package":    {edit("busybox-static", `"a,b"`), "packages"},
		"no packages":         {edit("[busybox-static]", "[]"), "packages: none"},
		"mirror of a program": {edit("http://deb.debian.org/debian", "store:x"), "debian.mirror"},
		"newline in mirror":   {edit("http://deb.debian.org/debian", `"http://x/\ndeb y"`), "debian.mirror"},
		"hook outside":        {edit("hooks/clean.sh", "../../bin/x"), "hooks"},
		"hook not there":      {edit("hooks/clean.sh", "hooks/none.sh"), "hook: "},
		"hook a directory":    {edit("hooks/clean.sh", "hooks"), "not a file"},
		"cmdline of lines":    {edit("root=/dev/vda rw", `"a\nb"`), "kernel.cmdline"},
		"uuid":                {edit("00000000-0000-4000-8000-000000000001", "1; rm"), "disk.uuid"},
		"epoch before time":   {edit("2026-01-01T00:00:00Z", "1960-01-01T00:00:00Z"), "epoch"},
		"display":             {edit("640x480", "640x480x"), "guest.display"},
		"display of nothing":  {edit("640x480", "0x480"), "guest.display"},
		"parks no window":     {edit("display: 640x480", "display: 640x480, park: {argv: [x]}"), "guest.park"},
		"parks a list":        {edit("display: 640x480", "display: 640x480, park: [x]"), "line 21"},
		"root as user":        {edit("uid: 1000", "uid: 0"), "guest.uid"},
		"another system":      {edit("os: linux", "os: windows"), "guest.os"},
		"far too large":       {smallRecipe + strings.Repeat("#", 2<<20), "larger than"},
		"two faults":          {edit("uid: 1000", "uid: -1") + "\ntag: '!'\n", "tag: bad value"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := build.Load(writeRecipe(t, tt.recipe))
			var recipe *build.RecipeError
			if !errors.Is(err, image.ErrBadRecipe) || !errors.As(err, &recipe) {
				t.Fatalf("Load = %v, want a RecipeError", err)
			}
			if !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), build.RecipeFile) {
				t.Errorf("Load = %q, want it to say %q", err, tt.says)
			}
			if image.Hint(err) == "" {
				t.Error("no hint")
			}
		})
	}
}

func TestLoadMissing(t *testing.T) {
	t.Parallel()
	if _, err := build.Load(t.TempDir()); !errors.Is(err, image.ErrBadRecipe) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of an empty directory = %v", err)
	}
}

func TestRepositoryRecipes(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob(filepath.Join("..", "..", "..", "images", "*", build.RecipeFile))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("find recipes: %v, %v", dirs, err)
	}
	for _, path := range dirs {
		if _, err := build.Load(filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(smallRecipe))
	f.Add([]byte("name: &a [*a]\n"))
	f.Add([]byte("a: 1\n---\nb: 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := build.Parse(data)
		if err == nil && (r.Name == "" || len(r.Packages) == 0 || r.Disk.SizeMiB <= 0) {
			t.Fatalf("recipe without what is required was taken: %+v", r)
		}
	})
}

func TestRecipeDigest(t *testing.T) {
	t.Parallel()
	write := func(path, data string, mode os.FileMode) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			full := filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(full, []byte(data), mode), os.Chmod(full, mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		change func(t *testing.T, dir string)
		same   bool
	}{
		"nothing":         {change: func(*testing.T, string) {}, same: true},
		"unrelated file":  {change: write("unrelated", "changed", 0o644), same: true},
		"checkout's mask": {change: write("overlay/etc/motd", "hello\n", 0o600), same: true},
		"overlay content": {change: write("overlay/etc/motd", "bye\n", 0o644)},
		"overlay mode":    {change: write("overlay/etc/motd", "hello\n", 0o755)},
		"overlay file":    {change: write("overlay/etc/issue", "", 0o644)},
		"hook":            {change: write("hooks/clean.sh", "#!/bin/sh\n", 0o755)},
		"recipe":          {change: write(build.RecipeFile, smallRecipe+"\n# changed\n", 0o644)},
		"guest binary":    {change: write("guestd", "changed", 0o755)},
		"helper":          {change: write("helper", "changed", 0o755)},
		"link": {change: func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Symlink("/etc/motd", filepath.Join(dir, "overlay/link")); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := writeRecipe(t, smallRecipe)
			write("guestd", "g", 0o755)(t, dir)
			write("helper", "h", 0o755)(t, dir)
			guest := build.GuestBinaries{Guestd: filepath.Join(dir, "guestd"), Helper: filepath.Join(dir, "helper")}
			r, err := build.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			before, err := build.RecipeDigest(r, guest)
			if err != nil {
				t.Fatal(err)
			}
			tt.change(t, dir)
			after, err := build.RecipeDigest(r, guest)
			if err != nil {
				t.Fatal(err)
			}
			if same := before == after; same != tt.same {
				t.Errorf("digest stays the same: %t, want %t", same, tt.same)
			}
		})
	}
}
