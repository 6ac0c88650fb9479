//go:build integration

package vault_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/blob/s3"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
)

// TestVaultInS3 is the whole way over a network in which requests go wrong, to a real
// server: what comes back is the same, nothing plain is on the server's disk, and a
// sweep leaves nothing there.
func TestVaultInS3(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var spoils atomic.Bool
	var requests atomic.Int32
	p := s3test.NewProxy(t, s3test.Start(t, root), func(*http.Request) s3test.Trouble {
		if !spoils.Load() {
			return s3test.Trouble{}
		}
		switch requests.Add(1) % 9 {
		case 0:
			return s3test.Trouble{Status: http.StatusServiceUnavailable}
		case 4:
			return s3test.Trouble{Lose: true}
		}
		return s3test.Trouble{}
	})
	bucket, err := s3.Open(t.Context(), s3.Config{
		Endpoint: p.Addr, Bucket: s3test.Bucket, Prefix: "rc", AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	patient := retry.New(bucket, retry.Config{First: 10 * time.Millisecond, Max: 200 * time.Millisecond})
	key, data := newKey(t), stream(20<<20)
	v := open(t, patient, key)
	v.Small(0) // parts as they are
	spoils.Store(true)
	ref := written(t, v, entry(1), data)
	if got, err := read(t, open(t, patient, key), entry(1), ref); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	files := func() (n int) {
		err := filepath.WalkDir(filepath.Join(root, "data", s3test.Bucket), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			n++
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(canary)) {
				t.Errorf("a plain page is in %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := files(); n != 5 { // a mark, three parts, a manifest
		t.Errorf("%d files", n)
	}
	if err := v.Sweep(t.Context(), sessiontest.Tenure(1), vault.Ref{}); err != nil || files() != 0 {
		t.Errorf("after the sweep: %v, %d files", err, files())
	}
}
