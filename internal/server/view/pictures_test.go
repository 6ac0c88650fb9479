//go:build integration && pictures

package view_test

import "testing"

// TestPictures takes pictures of the page into the folder VIEWER_PICTURES, for people
// to look at; docs/viewer.png is its light.png.
func TestPictures(t *testing.T) { runViewer(t, "pictures") }
