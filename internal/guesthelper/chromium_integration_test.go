//go:build integration

package guesthelper_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/guest"
)

const page = `<!doctype html><meta charset=utf-8><title>page %</title>
<textarea id=t autofocus style="width:90%;height:90vh"></textarea>
<script>t.focus()
t.onkeydown = e => { if (e.key == 'Tab') { e.preventDefault(); document.execCommand('insertText', false, '\t') } }</script>`

// startChromium opens a page with a text area that has the focus.
func startChromium(t *testing.T, x *xserver, p *peer) {
	t.Helper()
	file := filepath.Join(x.home, "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	x.run(t, "chromium", "--no-sandbox", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--password-store=basic",
		"--user-data-dir="+x.home+"/profile", "file://"+file)
	p.focus(p.window("page %"))
}

// copied selects all where the focus is and copies it.
func copied(t *testing.T, p *peer, want string) {
	t.Helper()
	var got string
	p.setText("sentinel")
	defer func() {
		if t.Failed() {
			t.Log(cmp.Diff(want, got))
		}
	}()
	eventually(t, "copied text", func() bool {
		p.chord(0xffe3, 'a')
		p.chord(0xffe3, 'c')
		got = p.getText()
		return got == want
	})
}

func TestTextIntoChromium(t *testing.T) {
	x, p := desktop(t)
	startChromium(t, x, p)
	// The page has the focus when what is typed can be copied.
	eventually(t, "page takes keys", func() bool {
		p.setText("")
		p.text("ready")
		p.chord(0xffe3, 'a')
		p.chord(0xffe3, 'c')
		return p.getText() != ""
	})
	p.chord(0xffff)
	for _, k := range layouts {
		if t.Failed() {
			return
		}
		t.Run(k.Layout, func(t *testing.T) {
			p.call(guest.OpSetKeyboard, k, nil, nil)
			for name, text := range texts {
				if t.Failed() {
					return // each failure waits long
				}
				t.Run("page "+name, func(t *testing.T) {
					eff := p.text(text)
					t.Logf("%s %s", eff.Effect, eff.How)
					copied(t, p, text)
					p.chord(0xffff)
				})
			}
			t.Run("address bar", func(t *testing.T) {
				p.chord(0xffe3, 'l')
				p.text("grüße-Ж漢😀~^`")
				copied(t, p, "grüße-Ж漢😀~^`")
				p.chord(0xff1b)
				p.play(guest.InputEvent{Kind: "move", X: 500, Y: 500},
					guest.InputEvent{Kind: "button", Button: 1, Down: true}, guest.InputEvent{Kind: "button", Button: 1})
			})
		})
	}
}
