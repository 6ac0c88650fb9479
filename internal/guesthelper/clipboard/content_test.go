package clipboard_test

import (
	"bytes"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guesthelper/clipboard"
	"github.com/deskfork/deskfork/pkg/guest"
)

func TestOffer(t *testing.T) {
	got, err := clipboard.Offer(guest.Clipboard{Type: "text/plain", Data: []byte("nö漢")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"UTF8_STRING": "nö漢", "TEXT": "nö漢", "text/plain": "nö漢", "text/plain;charset=utf-8": "nö漢",
		"text/plain;charset=UTF-8": "nö漢", "STRING": "n\xf6?",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, c := range map[string]struct {
		c    guest.Clipboard
		want guest.Code
	}{
		"no utf-8":   {guest.Clipboard{Type: "text/plain", Data: []byte{0xff}}, guest.CodeInvalid},
		"no png":     {guest.Clipboard{Type: "image/png"}, guest.CodeInvalid},
		"other type": {guest.Clipboard{Type: "image/gif"}, guest.CodeInvalid},
		"too large":  {guest.Clipboard{Type: "text/html", Data: make([]byte, clipboard.MaxSize+1)}, guest.CodeNoSpace},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := clipboard.Offer(c.c); !errors.Is(err, &guest.Error{Code: c.want}) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTransfer(t *testing.T) {
	for _, n := range []int{0, 1, clipboard.Chunk, clipboard.Chunk + 1, 3 * clipboard.Chunk, 3*clipboard.Chunk + 7} {
		data := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
		bits, atOnce, done := clipboard.Receive(data, 100)
		if !done || !bytes.Equal(bytes.Join(bits, nil), data) {
			t.Errorf("%d bytes: done %v, %d bits", n, done, len(bits))
		}
		if atOnce != (n <= clipboard.Chunk) {
			t.Errorf("%d bytes at once: %v", n, atOnce)
		}
		if !atOnce && len(bits[len(bits)-1]) != 0 {
			t.Errorf("%d bytes do not end with an empty bit", n)
		}
	}
	if clipboard.Expires(time.Second) || !clipboard.Expires(time.Minute) {
		t.Error("when a transfer is given up")
	}
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		kind    string
		targets []string
		want    string
	}{
		"best text": {"text/plain", []string{"STRING", "UTF8_STRING", "TARGETS"}, "UTF8_STRING"},
		"old text":  {"text/plain", []string{"TEXT", "STRING"}, "STRING"},
		"image":     {"image/png", []string{"image/png"}, "image/png"},
		"no image":  {"image/png", []string{"image/jpeg"}, ""},
		"nothing":   {"text/plain", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clipboard.Choose(c.kind, c.targets); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	got := clipboard.Types([]string{"TARGETS", "STRING", "text/plain;charset=utf-8", "text/html", "image/png", "text/html;x=y", "SAVE_TARGETS"})
	if diff := cmp.Diff([]string{"text/plain", "text/html", "image/png"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct{ kind, in, want string }{
		"utf-8":      {"UTF8_STRING", "ü", "ü"},
		"latin-1":    {"STRING", "\xfc", "ü"},
		"utf-16 le":  {"text/html", "\xff\xfe<\x00\xfc\x00", "<ü"},
		"utf-16 be":  {"text/html", "\xfe\xff\x00<\xd8\x3d\xde\x00", "<😀"},
		"odd utf-16": {"text/html", "\xff\xfe<\x00x", "<"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(clipboard.Decode(c.kind, []byte(c.in))); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("STRING", []byte("\xfc"))
	f.Add("text/html", []byte("\xff\xfe<\x00"))
	f.Fuzz(func(t *testing.T, kind string, in []byte) {
		out := clipboard.Decode(kind, in)
		if (kind == "STRING" || bytes.HasPrefix(in, []byte{0xff, 0xfe})) && !utf8.Valid(out) && !bytes.HasPrefix(in, []byte{0xff, 0xfe}) {
			t.Errorf("%q of %q", out, in)
		}
	})
}
