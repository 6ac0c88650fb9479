package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the top folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDocLinks: every relative link in a Markdown file leads somewhere.
func TestDocLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	out, err := exec.CommandContext(t.Context(), "git", "-C", root(t), "ls-files", "*.md").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for file := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			continue // deleted in the work tree
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := filepath.Join(root(t), filepath.Dir(file), m[1])
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", file, m[1])
			}
		}
	}
}

// TestMapIsWhole: docs/ARCHITECTURE.md names every package, and none that is not
// there.
func TestMapIsWhole(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs/ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(?:cmd|internal|pkg|test|web)/[a-z0-9/]*(?:\{[a-z0-9,]+\})?`)
	var named []string
	for _, m := range name.FindAllString(string(text), -1) {
		stem, list, ok := strings.Cut(strings.TrimSuffix(m, "}"), "{")
		if !ok {
			named = append(named, strings.TrimSuffix(stem, "/"))
			continue
		}
		for part := range strings.SplitSeq(list, ",") {
			named = append(named, stem+part)
		}
	}
	var there []string
	for _, p := range packages(t) {
		there = append(there, p.name())
		if !slices.Contains(named, p.name()) {
			t.Errorf("docs/ARCHITECTURE.md does not name %s", p.name())
		}
	}
	for _, n := range named {
		under := func(p string) bool { return p == n || strings.HasPrefix(p, n+"/") }
		if !slices.ContainsFunc(there, under) {
			t.Errorf("docs/ARCHITECTURE.md names %s, which is not there", n)
		}
	}
}
