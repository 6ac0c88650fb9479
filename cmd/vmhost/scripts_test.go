package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingGo: who has no Go, or one that is too old, reads so before anything is
// installed.
func TestMissingGo(t *testing.T) {
	for name, tc := range map[string]struct{ program, says string }{
		"none":    {"", "is missing, or not in PATH"},
		"too old": {"#!/bin/sh\necho \"go: errors parsing go.mod\" >&2; exit 1\n", "is needed (https://go.dev/doc/install), and "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, tool := range []string{"sh", "sed", "dirname"} {
				path, err := exec.LookPath(tool)
				if err == nil {
					err = os.Symlink(path, filepath.Join(dir, tool))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if tc.program != "" {
				if err := os.WriteFile(filepath.Join(dir, "go"), []byte(tc.program), 0o700); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "sh"), "../../scripts/deps.sh", "run", "build")
			cmd.Env = []string{"PATH=" + dir}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.HasPrefix(string(out), "deps: Go 1.") || !strings.Contains(string(out), tc.says) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("%v, it says %q", err, out)
			}
		})
	}
}
