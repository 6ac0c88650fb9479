// Package registry serves one small package to installers of several languages, each
// in its own protocol, so that tests need no network. Its program says Says.
package registry

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// What the package is called, and what its program prints.
const (
	Name    = "deskfork-proof"
	Version = "1.2.3"
	GoPath  = "example.org/" + Name
	Says    = "proven"
)

// Registry is an http.Handler. Nothing but what it was given is there.
type Registry struct {
	mu    sync.Mutex
	files map[string][]byte // guarded by mu; by path
	asked []string          // guarded by mu; paths
}

// ServeHTTP implements http.Handler.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name := strings.ReplaceAll(req.URL.Path, "/./", "/") // as apt writes it
	r.mu.Lock()
	r.asked = append(r.asked, name)
	b, ok := r.files[name]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	if strings.HasSuffix(name, "/") {
		w.Header().Set("Content-Type", "text/html")
	}
	_, _ = w.Write(b) // who hung up knows
}

// Asked counts requests.
func (r *Registry) Asked() int { return r.AskedFor("/") }

// AskedFor counts requests for paths that begin with a prefix.
func (r *Registry) AskedFor(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.asked {
		if strings.HasPrefix(p, prefix) {
			n++
		}
	}
	return n
}

// Add serves a file.
func (r *Registry) Add(path string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.files == nil {
		r.files = map[string][]byte{}
	}
	r.files[path] = content
}

// addDir serves all files below a directory.
func (r *Registry) addDir(tb testing.TB, path, dir string) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(file string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		r.Add(path+strings.TrimPrefix(file, dir), content)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// write makes a file with its directories.
func write(tb testing.TB, mode os.FileMode, text string, path ...string) {
	tb.Helper()
	file := filepath.Join(path...)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), mode)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// tool runs a program in a directory.
func tool(tb testing.TB, dir, name string, args ...string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
