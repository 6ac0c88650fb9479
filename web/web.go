// Package web holds the pages that people use in a browser, dashboard and viewer,
// as `make web` has built them from src. What is built is kept beside its sources,
// so that Go alone builds the program; a test compares the two.
package web

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files are the pages: index.html, view.html, and assets, whose names change with
// what is in them.
func Files() (fs.FS, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("open the pages in this program: %w", err)
	}
	return files, nil
}
