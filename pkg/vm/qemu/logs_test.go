package qemu_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

// TestLogsAreBounded: a guest cannot fill the host's disk through its console,
// and what it said last stays.
func TestLogsAreBounded(t *testing.T) {
	e := newEnv(t)
	e.cfg.LogLimit, e.cfg.LogEvery = 1000, 5*time.Millisecond
	m, err := e.provider(t).Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(m.Info().Dir, qemu.SerialLogFile)
	console, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	if _, err := console.WriteString(strings.Repeat("noise\n", 1000) + "last words\n"); err != nil {
		t.Fatal(err)
	}
	cut := func() []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	deadline := time.Now().Add(time.Minute)
	for len(cut()) != 500 && time.Now().Before(deadline) {
		<-time.After(time.Millisecond)
	}
	if _, err := console.WriteString("more\n"); err != nil {
		t.Fatal(err)
	}
	if b := cut(); len(b) != 505 || !bytes.HasSuffix(b, []byte("noise\nlast words\nmore\n")) {
		t.Errorf("the log has %d bytes and ends with %q", len(b), b[max(0, len(b)-40):])
	}
}
