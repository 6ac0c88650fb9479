package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// FuzzMeta reads descriptions that anybody may have written: what is taken names
// no file outside of the store.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"version":1,"snapshot":{"id":"a","template":"a","shape":{"VCPUs":1,"MemoryMiB":64},"width":1,"height":1},"system_bytes":1,"workspace_bytes":1,"system":["a/system.qcow2"],"parts":{"a/state":{},"a/ram":{},"a/system.qcow2":{},"a/workspace.qcow2":{}}}`))
	f.Add([]byte(`{"parts":{"../../etc/passwd":{}}}`))
	f.Add([]byte(`null`))
	dir := f.TempDir()
	s := store.New(dir, false)
	if err := s.Begin("a"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(s.File("a/meta.json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := s.Get("a")
		if err != nil {
			return
		}
		for _, p := range m.Needs() {
			id, name := p.Split()
			if id.Validate() != nil || strings.ContainsAny(name, "/\x00") || !strings.HasPrefix(s.File(p), dir+"/") {
				t.Errorf("a part lies at %q", s.File(p))
			}
		}
		if m.Snapshot.ID != vm.SnapshotID("a") {
			t.Errorf("read %q", m.Snapshot.ID)
		}
	})
}
