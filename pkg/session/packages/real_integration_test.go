//go:build integration

package packages_test

import (
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/session/packages"
	"github.com/deskfork/deskfork/test/harness/registry"
)

// here runs everything for real, on this machine, in folders of the test.
type here struct {
	t   *testing.T
	env map[string]string
	ran []string // programs
}

// Exec implements packages.Exec.
func (h *here) Exec(ctx context.Context, c packages.Command) (packages.Result, error) {
	if strings.HasPrefix(c.Argv[0], "apt") {
		h.t.Errorf("it would change this machine: %v", c.Argv)
		return packages.Result{ExitCode: 1}, nil
	}
	if c.Argv[0] != "/bin/sh" && c.Argv[0] != "rm" {
		h.ran = append(h.ran, c.Argv[0])
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	env := maps.Clone(h.env)
	maps.Copy(env, c.Env)
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = "/"
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		return packages.Result{}, err
	}
	return packages.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out, Stderr: []byte(stderr.String())}, nil
}

// installer is a manager that this machine has.
type installer struct {
	name, at string // of the package, and what stands before a version
	slow     bool   // to fail takes it as long as to install
	list     func(name string) packages.List
	// tell adds the package to a registry, and says what the manager is told.
	tell func(t *testing.T, r *registry.Registry, base string) map[string]string
}

// installers are those that each machine for tests has.
var installers = map[packages.Manager]installer{
	packages.Pip: {
		name: registry.Name, at: "==", slow: true, list: func(name string) packages.List { return packages.List{Pip: []string{name}} },
		tell: func(t *testing.T, r *registry.Registry, base string) map[string]string {
			t.Helper()
			return r.Pip(t, base)
		},
	},
	packages.Npm: {
		name: registry.Name, at: "@", list: func(name string) packages.List { return packages.List{Npm: []string{name}} },
		tell: func(t *testing.T, r *registry.Registry, base string) map[string]string {
			t.Helper()
			return r.Npm(t, base)
		},
	},
	packages.Go: {
		name: registry.GoPath, at: "@v", list: func(name string) packages.List { return packages.List{Go: []string{name}} },
		tell: func(t *testing.T, r *registry.Registry, base string) map[string]string {
			t.Helper()
			env := r.Go(t, base)
			cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
			if err != nil {
				t.Fatal(err)
			}
			env["GOCACHE"], env["GOPATH"] = strings.TrimSpace(string(cache)), t.TempDir()
			return env
		},
	},
	packages.Gem: {
		name: registry.Name, at: "@", list: func(name string) packages.List { return packages.List{Gem: []string{name}} },
		tell: func(t *testing.T, r *registry.Registry, base string) map[string]string {
			t.Helper()
			r.Gem(t, t.TempDir())
			file := filepath.Join(t.TempDir(), "gemrc")
			if err := os.WriteFile(file, []byte(registry.GemRC(base)), 0o600); err != nil {
				t.Fatal(err)
			}
			return map[string]string{"GEMRC": file}
		},
	},
}

// TestByRealInstallers: from registries of the test. A version that is not there fails
// by the manager's words, programs are found, and neither a machine that goes on nor a
// workspace in a new one asks anybody.
func TestByRealInstallers(t *testing.T) {
	t.Parallel()
	for m, of := range installers {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			installed(t, m, of)
		})
	}
}

func installed(t *testing.T, m packages.Manager, of installer) {
	t.Helper()
	r := &registry.Registry{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	x := &here{t: t, env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "LC_ALL": "C.UTF-8"}}
	maps.Copy(x.env, of.tell(t, r, server.URL))
	dir := t.TempDir()
	req := packages.Request{Machine: dir, Image: "sha256:1", Workspace: filepath.Join(dir, "workspace"), MachineDir: filepath.Join(dir, "system")}
	install := func(what string, anew bool) {
		t.Helper()
		before := r.Asked()
		x.ran = nil
		if err := new(packages.Installer).Install(t.Context(), x, req); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if asked := r.Asked() > before; asked != anew || (len(x.ran) > 0) != anew {
			t.Errorf("%s: it asked the registry: %v; %v ran", what, asked, x.ran)
		}
		res, err := x.Exec(t.Context(), packages.Command{Argv: packages.Wrap(req.Workspace, []string{registry.Name}), Timeout: packages.FullLimit})
		if err != nil || string(res.Stdout) != registry.Says+"\n" {
			t.Errorf("%s: its program: %v, %+v", what, err, res)
		}
	}
	if err := os.Mkdir(req.Workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	if !of.slow {
		req.List = of.list(of.name + of.at + "9.9.9")
		err := new(packages.Installer).Install(t.Context(), x, req)
		if e, ok := errors.AsType[*packages.Error](err); !ok || e.Manager != m || e.ExitCode == 0 || e.Output == "" {
			t.Errorf("a version that is not there: %v", err)
		}
	}
	req.List = of.list(of.name + of.at + registry.Version)
	install("full", true)
	install("warm", false)
	if err := os.RemoveAll(req.MachineDir); err != nil {
		t.Fatal(err)
	}
	install("restored", false)
}
