//go:build integration

package seal_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/blob/s3"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
)

// TestSealedInS3 is the whole way of a checkpoint: encrypted, with retries, over
// a network in which one request in five goes wrong and which is away for two
// seconds, to a real server and back, with an increment and damage on the
// server's disk.
func TestSealedInS3(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var requests atomic.Int32
	var begun, repeats atomic.Int64
	p := s3test.NewProxy(t, s3test.Start(t, root), func(r *http.Request) s3test.Trouble {
		if at := begun.Load(); at == 0 {
			return s3test.Trouble{}
		} else if away := time.Since(time.Unix(0, at)); away > 100*time.Millisecond && away < 2*time.Second {
			return s3test.Trouble{Refuse: true}
		}
		switch requests.Add(1) % 15 {
		case 0:
			return s3test.Trouble{Status: http.StatusServiceUnavailable}
		case 5:
			return s3test.Trouble{Lose: true}
		case 10:
			if r.Method == http.MethodGet && r.URL.RawQuery == "" {
				return s3test.Trouble{CutAnswer: 150_000}
			}
			return s3test.Trouble{CutRequest: 100}
		}
		return s3test.Trouble{}
	})
	bucket, err := s3.Open(t.Context(), s3.Config{
		Endpoint: p.Addr, Bucket: s3test.Bucket, Prefix: "ws", AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	patient := retry.New(bucket, retry.Config{First: 10 * time.Millisecond, Max: 200 * time.Millisecond, Notice: func(error, time.Duration) { repeats.Add(1) }})
	s := open(t, patient, newKey(t))
	cp := &checkpoint.Store{Objects: s, Key: s.Key()}
	begun.Store(time.Now().UnixNano())

	disk := make([]byte, 24<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(disk[:20<<20])
	req := checkpoint.Request{
		Ref: workspace.Ref{Workspace: "w", Checkpoint: "c1"}, Source: bytes.NewReader(bytes.Clone(disk)), Size: int64(len(disk)),
		Created: time.Now(), Holder: "h",
	}
	first, err := cp.Write(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < 20<<20; at += 400_000 {
		disk[at] ^= 1
		req.Changed = append(req.Changed, workspace.Extent{Offset: int64(at), Length: 1})
	}
	req.Checkpoint, req.Parent, req.Source = "c2", first, bytes.NewReader(disk)
	second, err := cp.Write(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	back := target(make([]byte, len(disk)))
	if err := cp.Restore(t.Context(), second, back); err != nil || !bytes.Equal(back, disk) {
		t.Fatalf("restore: %v", err)
	}
	if repeats.Load() < 5 {
		t.Errorf("%d repeats: no trouble came", repeats.Load())
	}
	file := filepath.Join(root, "data", s3test.Bucket, "ws", second.Packs[0].Key)
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stored[len(stored)/2] ^= 1
	if err := os.WriteFile(file, stored, 0o600); err != nil {
		t.Fatal(err)
	}
	if damage, err := cp.Verify(t.Context(), second); err != nil || len(damage) == 0 || damage[0].Key != second.Packs[0].Key {
		t.Errorf("verify: %v, %v", damage, err)
	}
}
