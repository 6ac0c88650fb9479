package qemu_test

import (
	"log/slog"
	"os"
	"testing"
	"time"
)

// shortDir is a temporary directory whose name leaves room for socket names.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dfq")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func testLogger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually polls a condition of another process, which tells nobody.
func eventually(t *testing.T, limit time.Duration, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("nothing within %v", limit)
		}
	}
}
