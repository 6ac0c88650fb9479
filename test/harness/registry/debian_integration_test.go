//go:build integration

package registry_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/test/harness/registry"
)

// TestDebian: apt finds a package in the repository, and fetches it.
func TestDebian(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string, path ...string) string {
		t.Helper()
		file := filepath.Join(append([]string{dir}, path...)...)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = filepath.Join(dir, "got")
		cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(dir, "apt.conf"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	for _, d := range []string{"got", "debs", "state/lists/partial", "cache/archives/partial"} {
		write("", d, ".keep")
	}
	write("Package: deskfork-proof\nVersion: 1.2-3\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a proof\n", "package", "DEBIAN", "control")
	run("dpkg-deb", "--root-owner-group", "--build", filepath.Join(dir, "package"), filepath.Join(dir, "debs", "it.deb"))
	r := &registry.Registry{}
	if err := r.Debian(t.Context(), filepath.Join(dir, "debs")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	defer server.Close()
	list := write("deb [trusted=yes] "+server.URL+"/apt/ ./\n", "apt.list")
	write(`Dir::Etc::sourcelist "`+list+`"; Dir::Etc::sourceparts "-"; Dir::State "`+dir+`/state"; Dir::State::status "`+write("", "status")+
		`"; Dir::Cache "`+dir+`/cache"; APT::Sandbox::User "root"; Debug::NoLocking "1";`, "apt.conf")
	run("apt-get", "update")
	run("apt-get", "download", "deskfork-proof=1.2-3")
	if got, err := filepath.Glob(filepath.Join(dir, "got", "deskfork-proof_1.2-3_all.deb")); err != nil || len(got) != 1 {
		t.Errorf("fetched %v, %v", got, err)
	}
}
