package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// TestRunInputGoesOnAfterCuts: links that die at random offsets lose no byte of
// the input and double none, whether it travels with the request or after it.
func TestRunInputGoesOnAfterCuts(t *testing.T) {
	for _, tt := range []struct{ size, most int64 }{{100 << 10, 300 << 10}, {8 << 20, 1 << 20}} {
		size := tt.size
		var cuts atomic.Int64
		for seed := range uint64(4) {
			g := guesttest.Start(t, guesttest.Config{})
			dial := fragile(g, seed, tt.most)
			c := guesttest.Run(t, client.Config{Token: guesttest.Token, Dial: func(ctx context.Context) (net.Conn, error) {
				cuts.Add(1)
				return dial(ctx)
			}})
			all, err := io.ReadAll(noise(seed, size))
			if err != nil {
				t.Fatal(err)
			}
			// The program reads in bits, so that much is on its way at any time.
			res, err := c.Exec.Run(soon(t), shell("dd bs=3000 status=none | sha256sum"), bytes.NewReader(all))
			if want := fmt.Sprintf("%x  -\n", sha256.Sum256(all)); err != nil || string(res.Stdout) != want || res.Status.In != size {
				t.Errorf("size %d, seed %d: %q, want %q; %+v, %v", size, seed, res.Stdout, want, res.Status, err)
			}
		}
		if cuts.Load() < 6 {
			t.Errorf("size %d: only %d connections: the test proves little", size, cuts.Load())
		}
	}
}

// TestInputIsTakenOver: a second client feeds the program although the first one
// says nothing; what the first one sent before arrives first.
func TestInputIsTakenOver(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	// It reads nothing before it is told to.
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := c.Exec.Start(soon(t), guest.ExecSpec{Shell: "echo ready; read x <" + gate + "; exec sha256sum", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, first)
	expecter(t, first.Stdout)("ready")
	all, err := io.ReadAll(noise(3, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	const part = 200 << 10 // more than a pipe holds, less than a window
	if _, err := first.Stdin.Write(all[:part]); err != nil {
		t.Fatal(err)
	}
	for st.In <= 64<<10 { // until the pipe is full, and more is waiting to get in
		if st, err = c.Exec.Status(soon(t), st.ID); err != nil {
			t.Fatal(err)
		}
	}
	second, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, second)
	if in := second.Status.In; in < st.In || in > part {
		t.Fatalf("the second goes on at %d of %d", in, part)
	}
	fed := make(chan error)
	go func() {
		_, err := second.Stdin.Write(all[second.Status.In:])
		fed <- errors.Join(err, second.Stdin.Close())
	}()
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	expecter(t, second.Stdout)(fmt.Sprintf("%x  -\n", sha256.Sum256(all)))
	if _, err := first.Stdin.Write(make([]byte, 1<<20)); err == nil {
		t.Error("the first still writes")
	}
}
