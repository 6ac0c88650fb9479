//go:build integration

package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
)

// wire is the way from the daemon to its store.
type wire struct {
	mu   sync.Mutex
	plan func(n int, r *http.Request) s3test.Trouble // guarded by mu; n counts requests of a plan
	n    int                                         // guarded by mu
	sent int64                                       // guarded by mu; bytes of bodies that were passed on
}

// trouble is the plan of the proxy.
func (l *wire) trouble(r *http.Request) s3test.Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	var t s3test.Trouble
	if l.n++; l.plan != nil {
		t = l.plan(l.n, r)
	}
	if t.Status == 0 && !t.Refuse {
		l.sent += max(r.ContentLength, 0)
	}
	return t
}

// befall changes what befalls requests; nil: nothing.
func (l *wire) befall(plan func(n int, r *http.Request) s3test.Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan, l.n = plan, 0
}

// uploaded is how many bytes were sent to the store while fn ran.
func (l *wire) uploaded(fn func()) int64 {
	l.mu.Lock()
	before := l.sent
	l.mu.Unlock()
	fn()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent - before
}

// rough delays all, answers 503 to every fifth by chance, loses some answers, and
// cuts some bodies. The first requests have one trouble each.
func rough(n int, r *http.Request) s3test.Trouble {
	t := s3test.Trouble{Delay: 20 * time.Millisecond}
	if n > 4 {
		n = mrand.IntN(20)
	}
	switch {
	case n <= 3:
		t.Status = http.StatusServiceUnavailable
	case n == 4:
		t.Lose = true
	case n == 5 && r.Method == http.MethodPut:
		t.CutRequest = 1 << 16
	case n == 5:
		t.CutAnswer = 1 << 16
	}
	return t
}

// serveWith starts the daemon of all tests anew with other flags, until the test
// ends. Its desktops run on.
func serveWith(t *testing.T, args ...string) {
	t.Helper()
	again := func(ctx context.Context, args []string) error {
		host.Stop()
		host.Args = args
		return host.Start(ctx)
	}
	old := host.Args
	t.Cleanup(func() {
		if err := again(context.Background(), old); err != nil {
			t.Error(err)
		}
	})
	if err := again(t.Context(), append(slices.Clone(old), args...)); err != nil {
		t.Fatal(err)
	}
}

// inS3 lets the daemon keep checkpoints in a real S3 server behind a line.
func inS3(t *testing.T) *wire {
	t.Helper()
	l := &wire{}
	serveWith(t, l.to(t, s3test.Start(t, t.TempDir()))...)
	return l
}

// to is what a daemon is told, to keep checkpoints in an S3 server behind the line.
func (l *wire) to(t *testing.T, server string) []string {
	t.Helper()
	proxy := s3test.NewProxy(t, server, l.trouble)
	keys := filepath.Join(t.TempDir(), "keys")
	text := "AWS_ACCESS_KEY_ID=" + s3test.AccessKey + "\nAWS_SECRET_ACCESS_KEY=" + s3test.SecretKey + "\n"
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--blobs", "s3://" + s3test.Bucket + "/e2e", "--s3-endpoint", proxy.Addr, "--s3-plain", "--s3-credentials", keys}
}

// answer is that of a call that was made meanwhile.
type answer struct {
	made api.Checkpoint
	err  error
}

// meanwhile takes a checkpoint beside the test.
func (d desk) meanwhile(t *testing.T, req api.CreateCheckpoint) <-chan answer {
	t.Helper()
	done := make(chan answer, 1)
	go func() {
		c, err := d.Checkpoint(t.Context(), req)
		done <- answer{c, err}
	}()
	return done
}

// writable shows that the guest's file system does not stand still.
func (d desk) writable(t *testing.T) {
	t.Helper()
	d.sh(t, "timeout 60 sh -c 'date > /workspace/probe && sync -f /workspace'")
}

// outage lets the store be away in the middle of a checkpoint: when packs of it
// have come, and more are on their way. The desktop goes on meanwhile.
func outage(t *testing.T, l *wire, d desk, lasts time.Duration) answer {
	t.Helper()
	d.sh(t, "head -c 40M /dev/urandom > /workspace/outage")
	began := make(chan struct{})
	l.befall(func(_ int, r *http.Request) s3test.Trouble {
		select {
		case <-began:
			return s3test.Trouble{Refuse: true}
		default:
		}
		if strings.Contains(r.URL.Path, "/packs/") && r.Method == http.MethodPut {
			close(began)
		}
		return s3test.Trouble{}
	})
	done := d.meanwhile(t, api.CreateCheckpoint{})
	select {
	case <-began:
	case a := <-done:
		t.Fatalf("the checkpoint ended before the outage began: %+v", a)
	}
	over := time.After(lasts)
	d.writable(t)
	select {
	case a := <-done:
		return a // it did not wait
	case <-over:
	}
	l.befall(nil)
	return <-done
}

const hashFiles = "cd /workspace && find . -path ./lost+found -prune -o -type f ! -name probe -print0 | sort -z | xargs -0 sha256sum"

// TestWorkspaceInS3 keeps files in a real S3 server over a bad line: what is added
// costs about its size, an outage in the middle of a checkpoint is survived while
// the desktop goes on, and all of it comes back.
func TestWorkspaceInS3(t *testing.T) {
	alone(t)
	l := inS3(t)
	files := "s3-" + strings.ToLower(rand.Text()[:8])
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 1024}, api.StageDrawn)
	d.sh(t, "cd /workspace; mkdir many; for i in $(seq 500); do head -c 4096 /dev/urandom > many/$i; done; head -c 16M /dev/urandom > big; sync")
	checkpoint := func(req api.CreateCheckpoint) (c api.Checkpoint, sent int64) {
		t.Helper()
		sent = l.uploaded(func() {
			var err error
			if c, err = d.Checkpoint(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("checkpoint: added %d bytes, sent %d, frozen %.0f ms", c.Added, sent, c.FrozenMS)
		return c, sent
	}
	l.befall(rough)
	checkpoint(api.CreateCheckpoint{Workspace: files})
	l.befall(nil)
	d.sh(t, "head -c 8M /dev/urandom >> /workspace/big; sync")
	if c, sent := checkpoint(api.CreateCheckpoint{}); c.Full != "" || c.Added < 8<<20 || sent > 10<<20 {
		t.Errorf("8 MiB appended added %d bytes and sent %d; full: %q", c.Added, sent, c.Full)
	}
	d.sh(t, rewriteFiles)
	if c, sent := checkpoint(api.CreateCheckpoint{}); c.Full != "" || sent > 2*500*4096 {
		t.Errorf("500 times 4 KiB rewritten added %d bytes and sent %d; full: %q", c.Added, sent, c.Full)
	}
	a := outage(t, l, d, 5*time.Second)
	if a.err != nil {
		t.Fatalf("a checkpoint in whose middle the store was away: %v", a.err)
	}
	want := d.sh(t, hashFiles)
	l.befall(rough)
	other := breakable(t, api.CreateDesktop{Workspace: fmt.Sprintf("%s@%s", files, a.made.Ref)}, api.StageDrawn)
	if got := other.sh(t, hashFiles); got != want {
		t.Errorf("restored is\n%s\nwant\n%s", got, want)
	}
	l.befall(nil)
	if v, err := host.Client.Workspaces().Verify(t.Context(), files); err != nil || !v.OK {
		t.Errorf("verify %+v, %v", v, err)
	}
}
