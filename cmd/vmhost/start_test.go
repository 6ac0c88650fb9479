package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestStart: our packages begin with next to no work, because every call of the
// command line pays for it. Bytes stand for time: they are the same on every machine.
func TestStart(t *testing.T) {
	const most = 8 << 10
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$") // it has in it what vmhost has
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	// init PACKAGE @0.1 ms, 0.01 ms clock, 24 bytes, 1 allocs
	seen := false
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 11 || words[0] != "init" {
			continue
		}
		n, err := strconv.Atoi(words[7])
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		name, ours := strings.CutPrefix(words[1], "github.com/deskfork/deskfork/")
		seen = seen || ours
		if ours && name != "cmd/vmhost" && n > most { // that has the tests in it
			t.Errorf("%s takes %d bytes before main, more than %d: sync.OnceValue lets it wait until it is needed", name, n, most)
		}
	}
	if !seen {
		t.Errorf("no package of ours is in the trace:\n%s", &trace)
	}
}
