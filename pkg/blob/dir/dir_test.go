package dir_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/dir"
)

func open(t *testing.T, name string) *dir.Store {
	t.Helper()
	s, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		t.Helper()
		return open(t, filepath.Join(t.TempDir(), "new", "store"))
	})
}

const (
	key  = "ws/packs/one"
	size = 200_000
)

func body() *bytes.Reader { return bytes.NewReader(bytes.Repeat([]byte("deskfork"), size/8)) }

// TestSteps: the file is synced before it has its name, and its directories
// after it.
func TestSteps(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	var steps []string
	s.OnStep(func(name string) { steps = append(steps, name) })
	if err := s.Put(t.Context(), key, body(), size); err != nil {
		t.Fatal(err)
	}
	want := []string{"create", "write", "sync", "mkdir", "link", "sync ws/packs", "sync ws", "sync .", "remove"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
}

// TestKilledAtEachStep kills a writer process before each step: the blob is
// whole or absent, a second writer succeeds, and nothing else is to be seen.
func TestKilledAtEachStep(t *testing.T) {
	if at := os.Getenv("DESKFORK_KILL_AT"); at != "" {
		writeAndDie(t, os.Getenv("DESKFORK_KILL_DIR"), at)
		return
	}
	t.Parallel()
	killed := 0
	for step := range 20 {
		name := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledAtEachStep$")
		cmd.Env = append(os.Environ(), "DESKFORK_KILL_AT="+strconv.Itoa(step), "DESKFORK_KILL_DIR="+name)
		out, err := cmd.CombinedOutput()
		if err != nil && !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("step %d: %v\n%s", step, err, out)
		}
		s := open(t, name)
		afterKill(t, s, step)
		if err == nil {
			break // the writer came to its end
		}
		killed++
		if err := s.Clean(time.Now().Add(time.Second)); err != nil {
			t.Errorf("clean: %v", err)
		}
		if left, err := os.ReadDir(filepath.Join(name, ".tmp")); err != nil || len(left) != 0 {
			t.Errorf("step %d: temporary files %v, %v", step, left, err)
		}
	}
	if killed != 9 {
		t.Errorf("killed at %d steps, want 9", killed)
	}
}

func writeAndDie(t *testing.T, name, at string) {
	t.Helper()
	s, n := open(t, name), 0
	s.OnStep(func(string) {
		if strconv.Itoa(n) == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		n++
	})
	if err := s.Put(t.Context(), key, body(), size); err != nil {
		t.Fatal(err)
	}
}

func afterKill(t *testing.T, s *dir.Store, step int) {
	t.Helper()
	page, err := s.List(t.Context(), "", "", 10)
	if err != nil || len(page) > 1 {
		t.Fatalf("step %d: list %v, %v", step, page, err)
	}
	err = s.Put(t.Context(), key, body(), size)
	if there := len(page) == 1; there != errors.Is(err, blob.ErrExists) || !there && err != nil {
		t.Errorf("step %d: put again, there %v: %v", step, there, err)
	}
	r, err := s.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatalf("step %d: %v", step, err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	want, _ := io.ReadAll(body())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("step %d: %d bytes, %v", step, len(got), err)
	}
}

// TestNoTraversal: a link that somebody put into the directory leads nowhere.
func TestNoTraversal(t *testing.T) {
	t.Parallel()
	name, outside := t.TempDir(), t.TempDir()
	s := open(t, name)
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(name, "out")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), "out/secret", 0, -1); err == nil {
		_ = r.Close()
		t.Error("read outside of the directory")
	}
	if err := s.Put(t.Context(), "out/new", body(), size); err == nil {
		t.Error("wrote outside of the directory")
	}
	if err := s.Delete(t.Context(), "out/secret"); err == nil {
		t.Error("deleted outside of the directory")
	}
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Error(err)
	}
}

// TestTruncated: a file that was cut behind the store's back does not read well.
func TestTruncated(t *testing.T) {
	t.Parallel()
	name := t.TempDir()
	s := open(t, name)
	if err := s.Put(t.Context(), key, body(), size); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Truncate(filepath.Join(name, key), 100); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
