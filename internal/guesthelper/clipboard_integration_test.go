//go:build integration

package guesthelper_test

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/guest"
)

func (p *peer) setText(s string) {
	p.t.Helper()
	p.call(guest.OpClipboardSet, guest.Clipboard{Type: "text/plain"}, []byte(s), nil)
}

func (p *peer) getText() string {
	p.t.Helper()
	return string(p.call(guest.OpClipboardGet, guest.ClipboardParams{Type: "text/plain"}, nil, nil))
}

// noise is a PNG of about n bytes that does not compress.
func noise(t *testing.T, n int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	img := image.NewNRGBA(image.Rect(0, 0, 1024, n/4096))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32())
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestClipboardWithXclip(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	for name, c := range map[string]struct {
		kind, target string
		data         []byte
	}{
		"text":         {"text/plain", "UTF8_STRING", []byte("Grüße, Ж 漢 😀\n")},
		"empty":        {"text/plain", "UTF8_STRING", []byte{}},
		"html":         {"text/html", "text/html", []byte("<b>fett</b>")},
		"image":        {"image/png", "image/png", noise(t, 100_000)},
		"5 MiB text":   {"text/plain", "UTF8_STRING", bytes.Repeat([]byte("0123456789abcdefäö\n"), 5<<20/21)},
		"10 MiB image": {"image/png", "image/png", noise(t, 10<<20)},
	} {
		t.Run("set "+name, func(t *testing.T) {
			p.call(guest.OpClipboardSet, guest.Clipboard{Type: c.kind}, c.data, nil)
			for range 2 { // it is served again and again
				out := x.output(t, nil, "xclip", "-o", "-selection", "clipboard", "-t", c.target)
				if !bytes.Equal(out, c.data) {
					t.Fatalf("xclip got %d bytes, want %d", len(out), len(c.data))
				}
			}
			if got := p.call(guest.OpClipboardGet, guest.ClipboardParams{Type: c.kind}, nil, nil); !bytes.Equal(got, c.data) {
				t.Errorf("read back %d bytes, want %d", len(got), len(c.data))
			}
		})
		t.Run("get "+name, func(t *testing.T) {
			if len(c.data) == 0 {
				return // xclip does not serve an empty text
			}
			file := filepath.Join(x.home, "in")
			if err := os.WriteFile(file, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			p.setText("former")
			x.run(t, "xclip", "-quiet", "-i", "-selection", "clipboard", "-t", c.target, file)
			var got []byte
			eventually(t, "xclip's content", func() bool {
				var err error
				got, err = p.try(guest.OpClipboardGet, guest.ClipboardParams{Type: c.kind}, nil, nil)
				return err == nil && string(got) != "former"
			})
			if !bytes.Equal(got, c.data) {
				t.Errorf("got %d bytes, want %d", len(got), len(c.data))
			}
			var ts guest.ClipboardTargets
			p.call(guest.OpClipboardTypes, nil, nil, &ts)
			if diff := cmp.Diff([]string{c.kind}, ts.Types); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClipboardTargets(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	p.setText("naïve Ж")
	got := string(x.output(t, nil, "xclip", "-o", "-selection", "clipboard", "-t", "TARGETS"))
	want := "TARGETS\nTIMESTAMP\nMULTIPLE\nSTRING\nTEXT\nUTF8_STRING\ntext/plain\ntext/plain;charset=UTF-8\ntext/plain;charset=utf-8\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := string(x.output(t, nil, "xclip", "-o", "-selection", "clipboard", "-t", "STRING")); got != "na\xefve ?" {
		t.Errorf("STRING is %q", got)
	}
	if stamp := x.output(t, nil, "xclip", "-o", "-selection", "clipboard", "-t", "TIMESTAMP"); len(stamp) == 0 {
		t.Error("no TIMESTAMP")
	}
}

func TestClipboardLeavesPrimaryAlone(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	x.run(t, "sh", "-c", "printf primary | xclip -quiet -i -selection primary")
	primary := func() string {
		return string(x.output(t, nil, "sh", "-c", "xclip -o -selection primary; true"))
	}
	eventually(t, "primary owned", func() bool { return primary() == "primary" })
	p.setText("clipboard")
	if got := primary(); got != "primary" {
		t.Errorf("PRIMARY is %q", got)
	}
}

func TestClipboardErrors(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	var ts guest.ClipboardTargets
	p.call(guest.OpClipboardTypes, nil, nil, &ts)
	if len(ts.Types) != 0 {
		t.Errorf("an empty clipboard has %v", ts.Types)
	}
	get := func(kind string) error {
		_, err := p.try(guest.OpClipboardGet, guest.ClipboardParams{Type: kind}, nil, nil)
		return err
	}
	if err := get("text/plain"); !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		t.Errorf("empty: %v", err)
	}
	p.setText("x")
	if err := get("image/png"); !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		t.Errorf("no image: %v", err)
	}
	for name, c := range map[string]guest.Clipboard{
		"no png": {Type: "image/png", Data: []byte("gif")}, "no utf-8": {Type: "text/plain", Data: []byte("\xff")},
		"other": {Type: "audio/wav", Data: []byte("x")},
	} {
		_, err := p.try(guest.OpClipboardSet, guest.Clipboard{Type: c.Type}, c.Data, nil)
		if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClipboardOwnerThatHangs(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	owner := x.run(t, "sh", "-c", "printf x | exec xclip -quiet -i -selection clipboard")
	eventually(t, "xclip owns", func() bool {
		got, err := p.try(guest.OpClipboardGet, guest.ClipboardParams{}, nil, nil)
		return err == nil && string(got) == "x"
	})
	if err := syscall.Kill(-owner.Process.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// It is given up long before the call's own time is over.
	var m guest.HelperMessage
	_, ch := p.send(guest.OpClipboardGet, guest.ClipboardParams{}, nil, time.Hour)
	select {
	case m = <-ch:
	case <-time.After(time.Minute):
	}
	if m.Error == nil || m.Error.Code != guest.CodeDeadline {
		t.Errorf("a stopped owner: %+v", m)
	}
	// Another caller's cancel is heard while it waits.
	id, ch := p.send(guest.OpClipboardGet, guest.ClipboardParams{}, nil, time.Minute)
	if err := p.conn.Write(guest.HelperMessage{ID: id, Op: guest.OpCancel}); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-ch:
		if m.Error == nil || m.Error.Code != guest.CodeCancelled {
			t.Errorf("cancelled: %+v", m)
		}
	case <-time.After(time.Minute):
		t.Error("cancel was not heard")
	}
	p.setText("mine") // it can be taken from it all the same
	if got := p.getText(); got != "mine" {
		t.Errorf("got %q", got)
	}
}
