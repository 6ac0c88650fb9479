//go:build integration && more

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/test/harness/registry"
)

// The network that elsewhere makes. A guest's own is another one.
const (
	ourSide   = "10.213.77.1/30"
	theirSide = "10.213.77.2"
	theirNet  = "10.213.77.0/30"
)

// elsewhere listens on an address that is not this host's: in a network namespace
// that goes with the listener.
func elsewhere(t *testing.T) net.Listener {
	t.Helper()
	type made struct {
		l   net.Listener
		err error
	}
	tid, ready, done := make(chan int, 1), make(chan struct{}), make(chan made, 1)
	ip := func(args ...string) error {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
		return nil
	}
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and nobody else is there
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		tid <- syscall.Gettid()
		<-ready
		for _, args := range [][]string{{"addr", "add", theirSide + "/30", "dev", "dfe1"}, {"link", "set", "dfe1", "up"}} {
			if err == nil {
				err = ip(args...)
			}
		}
		var l net.Listener
		if err == nil {
			l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", theirSide+":0")
		}
		done <- made{l, err}
	}()
	err := ip("link", "add", "dfe0", "type", "veth", "peer", "name", "dfe1", "netns", fmt.Sprint(<-tid))
	for _, args := range [][]string{{"addr", "add", ourSide, "dev", "dfe0"}, {"link", "set", "dfe0", "up"}} {
		if err == nil {
			err = ip(args...)
		}
	}
	close(ready)
	m := <-done
	if err != nil || m.err != nil {
		t.Fatal(err, m.err)
	}
	t.Cleanup(func() { _ = ip("link", "del", "dfe0") })
	return m.l
}

// debian adds Debian packages, with all that a desktop lacks of what they need.
func debian(t *testing.T, r *registry.Registry, names ...string) {
	t.Helper()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	dir := t.TempDir()
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, []byte(d.sh(t, "cat /var/lib/dpkg/status")), 0o600); err != nil {
		t.Fatal(err)
	}
	d.remove(t)
	args := append([]string{
		"install", "-y", "-q", "--download-only", "--no-install-recommends", "-o", "Dir::State::status=" + status,
		"-o", "Dir::Cache::archives=" + dir, "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1",
	}, names...)
	if out, err := exec.CommandContext(t.Context(), "apt-get", args...).CombinedOutput(); err != nil {
		t.Fatalf("apt-get %v: %v\n%s", args, err, out)
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
	l := elsewhere(t)
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	base := "http://" + l.Addr().String()
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
	if got := begin(t, w, "true", "--network", "none", "--pip", "deskfork-other").ends(t, 1); strings.Contains(got, "deskfork") {
		t.Errorf("without a network: %q", got)
	}
	for _, id := range machinesOf(t, w) {
		if err := host.Client.Desktop(id).Delete(t.Context()); err != nil && !is(err, api.CodeNotFound) {
			t.Error(err)
		}
	}
}
