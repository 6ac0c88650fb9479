//go:build integration && more

package packages_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/session/packages"
	"github.com/deskfork/deskfork/test/harness/registry"
)

// TestLongByRealCargo is TestByRealInstallers of the one that brings a compiler and a
// linker, too much for every machine that runs tests.
func TestLongByRealCargo(t *testing.T) {
	t.Parallel()
	installed(t, packages.Cargo, installer{
		name: registry.Name, at: "@", list: func(name string) packages.List { return packages.List{Cargo: []string{name}} },
		tell: func(t *testing.T, r *registry.Registry, base string) map[string]string {
			t.Helper()
			env := r.Cargo(t, base, t.TempDir())
			if home, err := os.UserHomeDir(); err == nil { // of a cargo that is not Debian's
				env["RUSTUP_HOME"] = filepath.Join(home, ".rustup")
			}
			return env
		},
	})
}
