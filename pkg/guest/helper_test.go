package guest_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/guest"
)

func TestHelperRoundTrip(t *testing.T) {
	big := bytes.Repeat([]byte{1, 2, 3}, 70_000)
	for name, m := range map[string]guest.HelperMessage{
		"request":      {ID: 7, Op: guest.OpScreen, Timeout: 5},
		"params":       {ID: 8, Op: guest.OpSetScreen, Params: []byte(`{"width":1}`)},
		"result":       {ID: 9, Result: []byte(`{"x":1}`)},
		"error":        {ID: 1 << 63, Error: &guest.Error{Code: guest.CodeBusy, Message: "wait"}},
		"bytes":        {ID: 10, Result: []byte(`{}`), Binary: big},
		"empty bytes":  {ID: 11, Result: []byte(`{}`), Binary: []byte{}},
		"hello's zero": {},
	} {
		t.Run(name, func(t *testing.T) {
			var wire bytes.Buffer
			c := guest.NewHelperConn(&wire, &wire)
			if err := c.Write(m); err != nil {
				t.Fatal(err)
			}
			got, err := c.Read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Error(diff)
			}
			if _, err := c.Read(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last message: %v, want EOF", err)
			}
		})
	}
}

func TestHelperRejects(t *testing.T) {
	for name, wire := range map[string]string{
		"empty frame":    "\x00\x00\x00\x00",
		"huge frame":     "\xff\xff\xff\xff",
		"unknown kind":   "\x00\x00\x00\x01Q",
		"no json":        "\x00\x00\x00\x03J{x",
		"stray bytes":    "\x00\x00\x00\x0aB\x00\x00\x00\x00\x00\x00\x00\x01x",
		"other id":       "\x00\x00\x00\x17J{\"id\":1,\"binary\":true}\x00\x00\x00\x09B\x00\x00\x00\x00\x00\x00\x00\x02",
		"promised bytes": "\x00\x00\x00\x17J{\"id\":1,\"binary\":true}\x00\x00\x00\x02B1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := guest.NewHelperConn(bytes.NewReader([]byte(wire)), io.Discard).Read()
			if !errors.Is(err, guest.ErrFrame) {
				t.Errorf("got %v, want ErrFrame", err)
			}
		})
	}
}

func FuzzHelperRead(f *testing.F) {
	var wire bytes.Buffer
	c := guest.NewHelperConn(&wire, &wire)
	for _, m := range []guest.HelperMessage{{ID: 1, Op: "x"}, {ID: 2, Result: []byte(`1`), Binary: []byte("abc")}} {
		if err := c.Write(m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(wire.Bytes())
	f.Add([]byte("\x00\x00\x00\x03J{}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := guest.NewHelperConn(bytes.NewReader(in), io.Discard)
		for {
			m, err := c.Read()
			if err != nil {
				return
			}
			var again bytes.Buffer
			if err := guest.NewHelperConn(nil, &again).Write(m); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
		}
	})
}
