package supervisor_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session/supervisor"
)

const conversation = `{"type":"ready","protocol":"openma-harness-supervisor-v1"}
{"type":"heartbeat","sequence":0}

  {"type":"checkpoint","checkpointId":"c","sessionId":"s","future":{"a":[1]}}
{"type":"completed","exitCode":0}
`

func events(r io.Reader) ([]supervisor.Event, error) {
	var all []supervisor.Event
	for dec := supervisor.NewDecoder[supervisor.Event](r); ; {
		e, err := dec.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

// TestFragments: the pieces that bytes come in mean nothing.
func TestFragments(t *testing.T) {
	t.Parallel()
	whole, err := events(strings.NewReader(conversation))
	if err != nil || len(whole) != 4 {
		t.Fatal(whole, err)
	}
	for name, r := range map[string]io.Reader{
		"one byte": iotest.OneByteReader(strings.NewReader(conversation)),
		"halves":   iotest.HalfReader(strings.NewReader(conversation)),
		"with EOF": iotest.DataErrReader(strings.NewReader(conversation)),
		"CR LF":    strings.NewReader(strings.ReplaceAll(conversation, "\n", "\r\n")),
	} {
		got, err := events(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Fatalf("%s: %s", name, diff)
		}
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"not JSON":           "hello\n",
		"not an object":      "[]\n",
		"null":               "null\n",
		"two":                `{"type":"drained"}{"type":"drained"}` + "\n",
		"unknown type":       `{"type":"resume"}` + "\n",
		"no type":            `{}` + "\n",
		"no protocol":        `{"type":"ready"}` + "\n",
		"no sequence":        `{"type":"heartbeat"}` + "\n",
		"negative sequence":  `{"type":"heartbeat","sequence":-1}` + "\n",
		"broken sequence":    `{"type":"heartbeat","sequence":1.5}` + "\n",
		"no checkpoint":      `{"type":"checkpoint","sessionId":"s"}` + "\n",
		"no session":         `{"type":"checkpoint","checkpointId":"c"}` + "\n",
		"no status":          `{"type":"completed"}` + "\n",
		"status as a string": `{"type":"completed","exitCode":"0"}` + "\n",
		"no message":         `{"type":"error"}` + "\n",
		"a command":          `{"type":"start"}` + "\n",
		"not UTF-8":          "{\"type\":\"error\",\"message\":\"\xff\"}\n",
		"long text":          `{"type":"error","message":"` + strings.Repeat("x", supervisor.MaxText+1) + "\"}\n",
		"long line":          `{"type":"drained","x":"` + strings.Repeat("x", supervisor.MaxLine) + "\"}\n",
		"cut off":            `{"type":"drained"}`,
	} {
		if all, err := events(strings.NewReader(line)); err == nil {
			t.Errorf("%s: read as %+v", name, all)
		}
	}
	if _, err := events(strings.NewReader(`{"type":"drained"}`)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a message without its end: %v", err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(conversation))
	f.Add([]byte(`{"type":"error","message":"\u0000\ud800"}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		got, _ := events(bytes.NewReader(in))
		pieces, _ := events(iotest.OneByteReader(bytes.NewReader(in)))
		if diff := cmp.Diff(got, pieces); diff != "" {
			t.Fatalf("pieces matter: %s", diff)
		}
		for _, e := range got {
			var out bytes.Buffer
			if err := supervisor.Encode(&out, e); err != nil {
				if out.Len() > 0 {
					t.Fatal("half a message was written")
				}
				continue // escapes may make it longer than a line
			}
			again, err := events(&out)
			if err != nil || len(again) != 1 {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if diff := cmp.Diff(e, again[0]); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func FuzzCommands(f *testing.F) {
	f.Add([]byte(`{"type":"start","scope":{"workspaceId":"w","environmentId":"e","sessionId":"s","workId":"k"},"harness":{"id":"h","version":"1"},"workspacePath":"/workspace","outputPath":null}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		for dec := supervisor.NewDecoder[supervisor.Command](bytes.NewReader(in)); ; {
			c, err := dec.Next()
			if err != nil {
				return
			}
			if err := c.Validate(); err != nil {
				t.Fatalf("an invalid command was read: %v", err)
			}
		}
	})
}
