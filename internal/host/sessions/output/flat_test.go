package output_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// TestOutputsWithoutASet: what was published before there were sets is read, and no
// sweep touches it.
func TestOutputsWithoutASet(t *testing.T) {
	t.Parallel()
	s, p := newPublisher(t)
	s.run(t, p, "one", "newer")
	const text = "old\n"
	sum := sha256.Sum256([]byte(text))
	is := "sha256:" + hex.EncodeToString(sum[:])
	manifest := fmt.Sprintf(`{"version":1,"sessionId":"one","workId":"w","generation":1,"entries":[{"logicalPath":"a","contentHash":%q,"size":4}]}`+"\n", is)
	msum := sha256.Sum256([]byte(manifest))
	id := hex.EncodeToString(msum[:])
	for key, text := range map[string]string{"blobs/" + hex.EncodeToString(sum[:]): text, "manifests/" + id: manifest} {
		if err := s.store.Objects.Put(t.Context(), output.Root+key, strings.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	c := session.Candidate{ID: "out_" + id, ContentHash: "sha256:" + id, Metadata: session.Metadata{"files": 1}}
	if err := p.publish(t.Context(), "old", c); err != nil {
		t.Fatal(err)
	}
	if r, err := p.prune(t.Context(), retain.Policy{Last: 1}); err != nil || len(r.Missing) != 0 || len(r.Dropped) != 0 {
		t.Errorf("pruned %+v, %v", r, err)
	}
	if got, err := reads(t.Context(), output.NewReader(s.store, "r"), c); err != nil || got != text {
		t.Errorf("read %q, %v", got, err)
	}
	all, err := s.store.Published(t.Context(), session.Scope{Workspace: "p", Environment: "e", Session: "old"}, &c)
	if err != nil || len(all) != 1 || all[0].ID != c.ID || !all[0].Time.IsZero() {
		t.Errorf("listed %+v, %v", all, err)
	}
}
