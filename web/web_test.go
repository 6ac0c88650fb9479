package web_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/web"
)

// made is what the pages are made of, and the pages; vite.config.ts has the same list.
var made = []string{"index.html", "view.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src", "dist"}

// TestBuilt: the pages in dist were built from the sources as they are now, and
// nobody has changed them since.
func TestBuilt(t *testing.T) {
	f, err := os.Open("dist/digest.txt")
	if err != nil {
		t.Fatalf("the pages were not built (make web): %v", err)
	}
	defer f.Close()
	recorded := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, path, _ := strings.Cut(lines.Text(), "  ")
		recorded[path] = sum
	}
	left := maps.Clone(recorded)
	for _, top := range made {
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || path == filepath.FromSlash("dist/digest.txt") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum, name := sha256.Sum256(b), filepath.ToSlash(path)
			if recorded[name] != hex.EncodeToString(sum[:]) {
				t.Errorf("web/%s is not what dist was built from: run make web and commit web/dist", name)
			}
			delete(left, name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range left {
		t.Errorf("web/%s is gone since dist was built: run make web and commit web/dist", name)
	}
}

// TestFiles: both pages are in the program, and need nothing of other hosts.
func TestFiles(t *testing.T) {
	files, err := web.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "view.html"} {
		page, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"http://", "https://", `src="//`, "<style", "style=", "onclick="} {
			if strings.Contains(string(page), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		if !strings.Contains(string(page), `<script type="module"`) {
			t.Errorf("%s has no script", name)
		}
	}
}
