package qmp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

var update = flag.Bool("update", false, "write what was seen into testdata")

// TestTranscripts plays the QEMU of testdata/*.txtar: "wire" is what goes over
// the socket, "calls" what the client is asked, "want" what it answers.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]int{}
			for i, f := range a.Files {
				parts[f.Name] = i
			}
			want := &a.Files[parts["want"]]
			got := play(t, string(a.Files[parts["wire"]].Data), string(a.Files[parts["calls"]].Data))
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(want.Data), got); d != "" {
				t.Fatalf("answers (-want +got):\n%s", d)
			}
		})
	}
}

func play(t *testing.T, wire, calls string) string {
	t.Helper()
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(theirs, wire) }() // awaited below
	var out strings.Builder
	c, err := qmp.New(t.Context(), ours, qmp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events := c.Subscribe(8)
	fmt.Fprintf(&out, "version %s\n", c.Version())
	for call := range strings.Lines(calls) {
		name, args, _ := strings.Cut(strings.TrimSpace(call), " ")
		var result json.RawMessage
		var argv any
		if args != "" {
			argv = json.RawMessage(args)
		}
		if err := c.Execute(t.Context(), name, argv, &result); err != nil {
			fmt.Fprintf(&out, "%s: error: %v\n", name, err)
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", name, result)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for e := range events.Events() {
		fmt.Fprintf(&out, "event %s\n", e.Event)
	}
	if err := <-served; err != nil {
		t.Errorf("server: %v", err)
	}
	return out.String()
}

// serve sends the S lines and checks the C lines, then waits for the end.
func serve(conn net.Conn, wire string) error {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for line := range strings.Lines(wire) {
		side, text, _ := strings.Cut(strings.TrimRight(line, "\n"), ":")
		text = strings.TrimPrefix(text, " ")
		switch side {
		case "S":
			if _, err := conn.Write([]byte(text + "\n")); err != nil {
				return fmt.Errorf("send %s: %w", text, err)
			}
		case "C":
			got, err := r.ReadBytes('\n')
			if err != nil {
				return fmt.Errorf("want %s: %w", text, err)
			}
			if !bytes.Equal(bytes.TrimSpace(got), []byte(text)) {
				return fmt.Errorf("got %s, want %s", got, text)
			}
		default:
			return errors.New("bad transcript line: " + line)
		}
	}
	_, _ = r.ReadByte()
	return nil
}
