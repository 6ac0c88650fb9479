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

// TestDown: make down removes its own desktop, names those that go on, and removes
// them too when it is asked to.
func TestDown(t *testing.T) {
	for name, tc := range map[string]struct {
		all, desktops string
		removes, says string
	}{
		"its own":      {desktops: "d1 first", removes: "rm -f first"},
		"others go on": {desktops: "d1 first\nd2 try", removes: "rm -f first", says: "make down ALL=1"},
		"only others":  {desktops: "d2 try", says: "make down ALL=1"},
		"all":          {all: "1", desktops: "d1 first\nd2 try", removes: "rm -f d1 d2"},
		"all, none":    {all: "1"},
		"none":         {},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put := func(file, text string) {
				path := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
					t.Fatal(err)
				}
			}
			for _, script := range []string{"down.sh", "serve.sh"} {
				text, err := os.ReadFile(filepath.Join("..", "..", "scripts", script))
				if err != nil {
					t.Fatal(err)
				}
				put("scripts/"+script, string(text))
			}
			put("list", tc.desktops+"\n")
			put("data/desktops/d1/x", "")
			put("bin/vmhost", `#!/bin/bash
cd "$(dirname "$0")/.."
shift 2 # --data-dir
case "$*" in
"version --server") ;;
"ls -q --filter "*) ;;
"ls -q") cut -sd' ' -f1 list ;;
ls) cat list ;;
inspect*) grep -q " $2$" list ;;
rm*)
	echo "$*" >>calls
	for d in "${@:3}"; do sed -i "/^$d /d; / $d$/d" list; done
	;;
*) exit 2 ;;
esac
`)
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/down.sh"))
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DATA=" + filepath.Join(root, "data"), "ALL=" + tc.all}
			out, err := cmd.CombinedOutput()
			calls, _ := os.ReadFile(filepath.Join(root, "calls"))
			if err != nil || strings.TrimSpace(string(calls)) != tc.removes || !strings.Contains(string(out), tc.says) || tc.says == "" && len(out) > 0 {
				t.Errorf("%v, it called %q and says %q", err, calls, out)
			}
		})
	}
}
