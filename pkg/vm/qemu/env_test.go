package qemu_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

// env is a place for providers of one test, with fake programs unless changed.
type env struct {
	cfg  qemu.Config
	base string // a system image
}

func newEnv(t *testing.T) *env {
	t.Helper()
	dir := shortDir(t)
	e := &env{base: filepath.Join(dir, "base.raw")}
	if err := os.WriteFile(e.base, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	e.cfg = qemu.Config{
		DataDir: filepath.Join(dir, "data"), RuntimeDir: filepath.Join(dir, "run"),
		QEMU: os.Args[0], QEMUImg: os.Args[0], Mke2fs: os.Args[0],
		Network: pipeNetwork, Logger: testLogger(t),
	}
	return e
}

func (e *env) provider(t *testing.T) *qemu.Provider {
	t.Helper()
	p, err := qemu.New(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (e *env) spec(*testing.T) vm.Spec { return e.specWith("") }

func (e *env) specWith(config string) vm.Spec {
	shape, _ := vm.ShapeNamed("small")
	shape.MemoryMiB = 64
	return vm.Spec{
		ID: "d1", Incarnation: "i1", Shape: shape,
		System:    vm.Disk{Base: e.base, BaseFormat: "raw"},
		Workspace: vm.Disk{SizeMiB: 64, Label: "workspace"},
		Width:     640, Height: 480, Network: vm.NetworkOpen, GuestConfig: []byte(config),
	}
}

// restart ends a provider as a daemon's end would, and makes the next.
func (e *env) restart(t *testing.T, p vm.Provider) vm.Provider {
	t.Helper()
	if err := p.(*qemu.Provider).Close(); err != nil {
		t.Fatal(err)
	}
	return e.provider(t)
}

// damage changes a byte of a snapshot's state and leaves no trace of it.
func (e *env) damage(t *testing.T, id vm.SnapshotID) {
	t.Helper()
	path := filepath.Join(e.cfg.DataDir, "templates", string(id), "state")
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Close(), os.Chtimes(path, before.ModTime(), before.ModTime()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// assertNothingLeft looks for what an incarnation could leave: directories,
// sockets, processes.
func (e *env) assertNothingLeft(t *testing.T) {
	t.Helper()
	for _, dir := range []string{
		filepath.Join(e.cfg.DataDir, "desktops"), filepath.Join(e.cfg.DataDir, "templates"), filepath.Join(e.cfg.RuntimeDir, "vm"),
	} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		for _, entry := range entries {
			if entry.Name() != ".lock" {
				t.Errorf("left behind: %s", filepath.Join(dir, entry.Name()))
			}
		}
	}
	for _, pid := range processes(t, e.cfg.DataDir) {
		t.Errorf("left running: process %d", pid)
	}
}

// processes lists those with dir in an argument, without ourselves.
func processes(t *testing.T, dir string) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range paths {
		b, err := os.ReadFile(path)
		args := strings.Split(string(b), "\x00")
		if err != nil || !slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, dir+"/desktops/") }) {
			continue
		}
		var pid int
		for _, c := range filepath.Base(filepath.Dir(path)) {
			pid = pid*10 + int(c-'0')
		}
		if _, err := proc.Memory(pid); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// pipeNetwork is a network whose guest echoes; it binds the host's socket like
// a real one.
func pipeNetwork(_ context.Context, spec qemu.NetworkSpec) (qemu.Network, error) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: spec.Remote, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	return echoNetwork{c}, nil
}

type echoNetwork struct{ *net.UnixConn }

func (echoNetwork) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	if err := ctx.Err(); err != nil || !strings.HasPrefix(address, vm.GuestIP+":") {
		return nil, errors.Join(err, errors.New("no route to "+address))
	}
	ours, theirs := net.Pipe()
	go func() { // ends with either end
		_, _ = io.Copy(theirs, theirs)
		theirs.Close()
	}()
	return ours, nil
}
