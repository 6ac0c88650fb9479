package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/cli"
)

var (
	vmhostCall = regexp.MustCompile("(?m)(?:^|[\\s(`])(?:bin/)?vmhost ([a-z-][^`\n#;|&)>]*)")
	makeCall   = regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	scriptCall = regexp.MustCompile(`\bscripts/[a-z]+\.sh\b`)
	// inGuest are programs of the image debian-xfce, and words that stand for one.
	inGuest   = regexp.MustCompile(`^(bash|cat|chromium|cp|du|mousepad|python3|sh|tail|tar|touch|true|uname|\./.+|…|[A-Z]+)$`)
	codeBlock = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
)

// TestDocumentedCommands: every command and flag that the documents and the help's
// examples show is there.
func TestDocumentedCommands(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "images/*/*.md", "internal/cli/testdata/help/*.txt"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(names), err)
		}
		for _, name := range names {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text := string(raw)
			if strings.HasSuffix(name, ".txt") {
				_, text, _ = strings.Cut(text, "\nExamples:\n")
				text, _, _ = strings.Cut(text, "\n\n")
			} else {
				text = strings.Join(codeBlock.FindAllString(text, -1), "\n")
			}
			for _, call := range vmhostCall.FindAllStringSubmatch(text, -1) {
				seen++
				checkCall(t, name, strings.Fields(call[1]))
			}
			for _, target := range makeCall.FindAllStringSubmatch(text, -1) {
				if !bytes.Contains(makefile, []byte("\n"+target[1]+":")) {
					t.Errorf("%s: make has no %s", name, target[1])
				}
			}
			for _, script := range scriptCall.FindAllString(text, -1) {
				if !exists(filepath.Join(root, script)) {
					t.Errorf("%s: there is no %s", name, script)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d commands were found: the test looks at the wrong places", seen)
	}
}

// checkCall compares a command line with the help of its command.
func checkCall(t *testing.T, where string, words []string) {
	t.Helper()
	if i := slices.Index(words, "--"); i >= 0 {
		if i+1 < len(words) && !inGuest.MatchString(words[i+1]) {
			t.Errorf("%s: the image has no program %s", where, words[i+1])
		}
		words = words[:i] // what follows is the guest's
	}
	for len(words) > 1 && words[0] == "--data-dir" {
		words = words[2:]
	}
	help, ok := helpOf(t, words[0])
	if !ok {
		t.Errorf("%s: vmhost has no %s", where, words[0])
		return
	}
	if len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		if of, ok := helpOf(t, words[0], words[1]); ok {
			help = of
		}
	}
	for _, w := range words[1:] {
		flag, _, _ := strings.Cut(w, "=")
		if strings.HasPrefix(flag, "--") && !strings.Contains(help, flag+" ") && !strings.Contains(help, flag+"\n") {
			t.Errorf("%s: vmhost %s has no %s", where, strings.Join(words, " "), flag)
		}
	}
}

// helpOf is the help of a command; ok is false when there is none of that name.
func helpOf(t *testing.T, words ...string) (_ string, ok bool) {
	t.Helper()
	var out, errs bytes.Buffer
	status := cli.Run(t.Context(), cli.Config{
		In: strings.NewReader(""), Out: &out, Err: &errs, DataDir: t.TempDir(), Serve: serveCmd, Build: buildCmd,
	}, append(slices.Clone(words), "--help"))
	return out.String(), status == 0 && strings.Contains(out.String(), "vmhost "+strings.Join(words, " "))
}

// TestReadmeNames: who tries the README's commands in their order never reads that
// a name is taken.
func TestReadmeNames(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Join(regexp.MustCompile("(?s)```\n.*?```").FindAllString(string(raw), -1), "\n")
	made := regexp.MustCompile(`--name ([a-z-]+)|vmhost snapshot ([a-z]+ [a-z-]+)`).FindAllString(blocks, -1)
	if len(made) < 6 {
		t.Fatalf("only %q make something", made)
	}
	slices.Sort(made)
	if once := slices.Compact(slices.Clone(made)); len(once) != len(made) {
		t.Errorf("a name is given twice: %q", made)
	}
}
