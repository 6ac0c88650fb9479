package spawn_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qemu/spawn"
)

// TestNothingIsInherited: a descriptor that we have from our own parent does not
// reach a process that outlives us.
func TestNothingIsInherited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inherited")
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR, 0o600) // without O_CLOEXEC, as inherited ones are
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	s := spawn.Spawner{Program: "sleep", Logger: slog.New(slog.DiscardHandler)}
	cmd, pr, err := s.Start(t.Context(), []string{"77"}, "77", filepath.Join(t.TempDir(), "log"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pr.Kill(t.Context()); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
		pr.Close()
	}()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
	if err != nil || len(links) < 3 {
		t.Fatal(links, err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, path) {
			t.Errorf("the process holds %s", to)
		}
	}
}
