package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/api"
)

// placeFile in the data directory holds the path by which it was served last.
const placeFile = "place"

// inPlace refuses a data directory that was moved while desktops or snapshots lie
// in it: their disks stand on each other by absolute paths. One that the old path
// still leads to is as good as where it was.
func inPlace(dataDir string) error {
	name := filepath.Join(dataDir, placeFile)
	raw, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read where the data directory was: %w", err)
	}
	old := strings.TrimSuffix(string(raw), "\n")
	if old != "" && same(old, dataDir) {
		return nil // what lies in it is named by the old path
	}
	if old != "" {
		for _, dir := range []string{"desktops", "templates"} {
			entries, err := os.ReadDir(filepath.Join(dataDir, dir))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("look into the data directory: %w", err)
			}
			if len(entries) > 0 {
				p := api.Errorf(api.CodePrecondition, "the data directory was moved from %s to %s, but its %s stand on files by their old paths", old, dataDir, dir)
				p.Hint = fmt.Sprintf("let the old path lead there, by ln -s %[2]s %[1]s or a bind mount, or move it back; images alone may be moved: without %[2]s/desktops and %[2]s/templates it is served",
					old, dataDir)
				return p
			}
		}
	}
	return atomicfile.Write(name, []byte(dataDir+"\n"), 0o600)
}

// same says whether two paths lead to one directory.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
