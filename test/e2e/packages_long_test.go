//go:build integration && more

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/test/harness/registry"
)

// debian adds Debian packages, with all that a desktop lacks of what they need.
func debian(t *testing.T, r *registry.Registry, names ...string) {
	t.Helper()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	dir := t.TempDir()
	status := filepath.Join(dir, "status")
	for _, name := range []string{"lists", "cache", "partial"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "partial"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(status, []byte(d.sh(t, "cat /var/lib/dpkg/status")), 0o600); err != nil {
		t.Fatal(err)
	}
	d.remove(t)
	apart := []string{ // from what this machine has, and knows
		"-q", "-o", "Dir::State::status=" + status, "-o", "Dir::State::lists=" + filepath.Join(dir, "lists"), "-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Dir::Cache::archives=" + dir, "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1",
	}
	install := append([]string{"install", "-y", "--download-only", "--no-install-recommends"}, names...)
	for _, args := range [][]string{{"update"}, install} {
		if out, err := exec.CommandContext(t.Context(), "apt-get", append(args, apart...)...).CombinedOutput(); err != nil {
			t.Fatalf("apt-get %v: %v\n%s", args, err, out)
		}
	}
	if err := r.Debian(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

// TestLongPackagesInRuns: installers in real guests, from registries that they reach
// through their network. A new machine with a workspace that was published asks for
// packages of the system alone, one that goes on for nothing.
func TestLongPackagesInRuns(t *testing.T) {
	alone(t)
	r := &registry.Registry{}
	base := answering(t, elsewhere(t), r)
	debian(t, r, "python3-venv", "ruby")
	r.Gem(t, t.TempDir())
	flags := []string{"--egress-allow", theirNet}
	for k, v := range r.Pip(t, base) {
		flags = append(flags, "--installer-env", k+"="+v)
	}
	for _, e := range []string{"PIP_TRUSTED_HOST=" + theirSide, "GEMRC=/workspace/gemrc", "APT_CONFIG=/workspace/apt.conf"} {
		flags = append(flags, "--installer-env", e)
	}
	serveWith(t, flags...)
	w := newWorkspace()
	begin(t, w, fmt.Sprintf("printf '%%s\\n' '%s' > apt.conf; printf '%%s\\n' '%s' > apt.list; printf '%%s' '%s' > gemrc",
		`Dir::Etc::sourcelist "/workspace/apt.list"; Dir::Etc::sourceparts "-";`, "deb [trusted=yes] "+base+"/apt/ ./", registry.GemRC(base))).ends(t, 0)
	const look = "deskfork-proof && .gem/bin/deskfork-proof && command -v deskfork-proof"
	const want = registry.Says + "\n" + registry.Says + "\n/workspace/.venv/bin/deskfork-proof\n"
	asked := func(what string, of map[string]bool, flags ...string) {
		t.Helper()
		before := map[string]int{}
		for part := range of {
			before[part] = r.AskedFor("/" + part + "/")
		}
		began := time.Now()
		if got := begin(t, w, look, append(flags, "--pip", registry.Name+"=="+registry.Version, "--gem", registry.Name)...).ends(t, 0); got != want {
			t.Errorf("%s: %q", what, got)
		}
		t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
		for part, want := range of {
			if got := r.AskedFor("/"+part+"/") > before[part]; got != want {
				t.Errorf("%s: it asked for %s: %v", what, part, got)
			}
		}
	}
	asked("full", map[string]bool{"apt": true, "pip": true, "gem": true})
	asked("restored", map[string]bool{"apt": true, "pip": false, "gem": false})
	asked("restored, and kept", map[string]bool{"apt": true, "pip": false, "gem": false}, "--keep", "machine")
	asked("warm", map[string]bool{"apt": false, "pip": false, "gem": false}, "--keep", "machine")
	if got := begin(t, w, "true", "--network", "none", "--pip", "deskfork-other").ends(t, api.CodePrecondition.ExitStatus()); strings.Contains(got, "deskfork") {
		t.Errorf("without a network: %q", got)
	}
	for _, id := range machinesOf(t, w) {
		if err := host.Client.Desktop(id).Delete(t.Context()); err != nil && !is(err, api.CodeNotFound) {
			t.Error(err)
		}
	}
}
