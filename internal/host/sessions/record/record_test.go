package record_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/sessions/record"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

func sample(id string) record.Record {
	zero := 0
	return record.Record{
		Run: api.Run{
			ID: id, Workspace: "w", Project: "p", Image: "i", Argv: []string{"true"}, State: api.RunCompleted, ExitCode: &zero,
			Generation: 3, Revision: 2, Created: time.Unix(1, 5).UTC(), Error: api.Errorf(api.CodeConflict, "so"),
		},
		Before: 1, Outputs: true, Key: "k",
		Output: &session.Candidate{ID: "out_x", ContentHash: "sha256:x", Metadata: session.Metadata{"set": "s"}},
	}
}

// TestRecords come back as they were written, without those that were removed; what is
// damaged is named, and hides no other.
func TestRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "runs")
	b, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two", "three"} {
		if err := b.Put(sample(id)); err != nil {
			t.Fatal(err)
		}
	}
	changed := sample("two")
	changed.Run.State, changed.Output = api.RunFailed, nil
	for _, err := range []error{b.Put(changed), b.Remove("three"), b.Remove("three")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "one.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if b, err = record.Open(dir); err != nil {
		t.Fatal(err)
	}
	all, err := b.All()
	if diff := cmp.Diff([]record.Record{sample("one"), changed}, all); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	for name, text := range map[string]string{"torn.json": `{"run":{"id":"to`, "other.json": `{"run":{"id":"one","workspace":"w","state":"running","argv":["x"]}}`, ".x.json.1.tmp": "half"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err = b.All()
	if len(all) != 2 || err == nil || !strings.Contains(err.Error(), "torn.json") || !strings.Contains(err.Error(), "other.json") {
		t.Errorf("%d records, %v", len(all), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// FuzzParse: bytes of a disk make a record or an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"run":{"id":"one","workspace":"w","state":"running","argv":["x"]},"output":{"id":"","contentHash":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := record.Parse(text)
		if err == nil && (r.Run.ID == "" || len(r.Run.Argv) == 0 || r.Output != nil && r.Output.Validate() != nil) {
			t.Errorf("%+v", r)
		}
	})
}
