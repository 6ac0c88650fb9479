//go:build integration

package build_test

// Real builds: need Debian's archive and, as an ordinary user, subordinate ids.

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/image/build"
)

//nolint:gochecknoglobals // test flags
var (
	recipeDir = flag.String("recipe", "", "directory of the recipe to build; a small one when empty")
	cacheDir  = flag.String("cache", os.Getenv("DESKFORK_TEST_CACHE"), "directory of fetched packages")
	victim    = flag.String("victim", "", "store of the build that TestKilledBuild kills; for its child only")
)

func request(t *testing.T) build.Request {
	t.Helper()
	if *recipeDir != "" {
		return requestOf(t, *recipeDir)
	}
	return requestOf(t, writeRecipe(t, smallRecipe))
}

// tiny is the request of a build that ends before its kernel is looked for: the
// smallest tree in which a hook runs.
func tiny(t *testing.T) build.Request {
	t.Helper()
	return requestOf(t, writeRecipe(t, strings.NewReplacer(
		"variant: minbase", "variant: essential", "package: linux-image-cloud-amd64", "package: busybox-static",
	).Replace(smallRecipe)))
}

func requestOf(t *testing.T, dir string) build.Request {
	t.Helper()
	r, err := build.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec sleep infinity\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return build.Request{Recipe: r, Guest: build.GuestBinaries{Guestd: binary, Helper: binary}}
}

func openStore(t *testing.T, dir string) *image.Store {
	t.Helper()
	s, err := image.Open(image.Config{Dir: dir, RemoveAll: build.RemoveAll})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// storeDir is a directory whose leftovers only RemoveAll can remove.
func storeDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := build.RemoveAll(filepath.Join(dir, "images")); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "images")
}

func TestTwoBuildsOneDigest(t *testing.T) {
	t.Parallel()
	req := request(t)
	var digests [2]image.Digest
	t.Run("builds", func(t *testing.T) {
		for i := range digests {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				digests[i] = buildTwice(t, req)
			})
		}
	})
	if digests[0] != digests[1] {
		t.Errorf("two builds of one recipe: %s and %s", digests[0], digests[1])
	}
}

// buildTwice builds into a store of its own, and sees that the image is built
// once, stage by stage.
func buildTwice(t *testing.T, req build.Request) image.Digest {
	t.Helper()
	s := openStore(t, storeDir(t))
	var stages []build.Stage
	var log bytes.Buffer
	b := build.New(build.Config{Store: s, CacheDir: *cacheDir, Log: &log, Progress: func(p build.Progress) {
		if p.Done {
			stages = append(stages, p.Stage)
			t.Logf("%-10s %v", p.Stage, p.Elapsed)
		}
	}})
	res, err := b.Build(t.Context(), req)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if diff := cmp.Diff(build.Stages(), stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if err := s.Verify(t.Context(), res.Manifest.Digest); err != nil {
		t.Error(err)
	}
	again, err := b.Build(t.Context(), req)
	if err != nil || again.Built || again.Manifest.Digest != res.Manifest.Digest {
		t.Errorf("Build again = %t %s, %v; want the image that is there", again.Built, again.Manifest.Digest, err)
	}
	return res.Manifest.Digest
}

func TestCancelledBuild(t *testing.T) {
	t.Parallel()
	// Later stages differ in nothing but time.
	for _, stage := range []build.Stage{build.StageBootstrap, build.StageCustomise} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			dir := storeDir(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := build.New(build.Config{Store: openStore(t, dir), CacheDir: *cacheDir, Progress: func(p build.Progress) {
				if p.Stage == stage && !p.Done {
					cancel()
				}
			}})
			_, err := b.Build(ctx, tiny(t))
			var failed *build.StageError
			if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || failed.Stage != stage {
				t.Fatalf("Build = %v, want a StageError of %s", err, stage)
			}
			nothingLeft(t, dir)
		})
	}
}

// A build whose process is killed leaves nothing that looks finished, no process and no
// mount, and the next to open the store removes its tree.
func TestKilledBuild(t *testing.T) {
	if *victim != "" {
		b := build.New(build.Config{Store: openStore(t, *victim), CacheDir: *cacheDir, Log: os.Stdout})
		_, err := b.Build(t.Context(), tiny(t))
		t.Fatalf("the build ended: %v", err)
	}
	t.Parallel()
	dir := storeDir(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBuild$", "-victim="+dir, "-cache="+*cacheDir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), "installing essential packages") {
		n, err := out.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			t.Fatalf("read the build's log: %v\n%s", err, seen.String())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The pipe ends when the last process of the build has ended.
	for err == nil {
		_, err = out.Read(buf)
	}
	_ = cmd.Wait()
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts of the killed build are left: %v", err)
	}
	openStore(t, dir)
	nothingLeft(t, dir)
}

func TestFailingHook(t *testing.T) {
	t.Parallel()
	dir := storeDir(t)
	req := tiny(t)
	hook := filepath.Join(req.Recipe.Dir, req.Recipe.Hooks[0])
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho 'about to fail'; exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := build.New(build.Config{Store: openStore(t, dir), CacheDir: *cacheDir}).Build(t.Context(), req)
	if !errors.Is(err, image.ErrBuildFailed) || !strings.Contains(err.Error(), "customise") ||
		!strings.Contains(err.Error(), "about to fail") {
		t.Errorf("Build = %v, want the stage and the hook's output", err)
	}
	nothingLeft(t, dir)
}

func TestDiskTooSmall(t *testing.T) {
	dir := storeDir(t)
	req := request(t)
	req.Recipe.Disk.SizeMiB, req.Recipe.Disk.ContentMiB = 1<<30, 1<<30 // a pebibyte
	_, err := build.New(build.Config{Store: openStore(t, dir)}).Build(t.Context(), req)
	var space *image.NoSpaceError
	if !errors.As(err, &space) || space.Stage != string(build.StageBootstrap) || space.Need < 1<<50 || space.Free == 0 {
		t.Errorf("Build = %v, want a NoSpaceError with stage and numbers", err)
	}
	if !strings.Contains(image.Hint(err), dir) {
		t.Errorf("hint = %q, want it to name %s", image.Hint(err), dir)
	}
	nothingLeft(t, dir)
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lock" && e.Name() != ".tags" {
			t.Errorf("%s is left in the store", e.Name())
		}
	}
}
