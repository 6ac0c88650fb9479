//go:build integration

package guesthelper_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// copied selects by a chord of Control and a letter ('a': all where the focus is),
// copies, and waits until want is content with the copy. The keys are pressed
// again only when nothing came of them: a browser that reads them late takes the
// clipboard for each, also after the next text was lent.
func copied(t *testing.T, p *peer, letter uint32, want func(string) bool) {
	t.Helper()
	const sentinel = "sentinel"
	got := sentinel
	defer func() {
		if t.Failed() {
			file := filepath.Join(t.ArtifactDir(), "screen.png")
			err := os.WriteFile(file, p.call(guest.OpScreenshot, guest.ScreenshotParams{Format: guest.FormatPNG}, nil, nil), 0o600)
			t.Logf("copied %q; the screen is in %s (%v)", got, file, err)
		}
	}()
	eventually(t, "copied text", func() bool {
		p.setText(sentinel)
		p.chord(0xffe3, letter)
		p.chord(0xffe3, 'c')
		for again := time.After(3 * time.Second); ; {
			if got = p.getText(); got != sentinel {
				return want(got)
			}
			select {
			case <-again:
				return false
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

func copiedText(t *testing.T, p *peer, want string) {
	t.Helper()
	copied(t, p, 'a', func(got string) bool {
		if got != want {
			t.Logf("copied %q, want %q", got, want)
		}
		return got == want
	})
}

func TestTextIntoChromium(t *testing.T) {
	x, p := desktop(t)
	startChromium(t, x, p)
	// More characters that the layout lacks than there are spare keys.
	many := make([]rune, 60)
	for i := range many {
		many[i] = rune(0x4e00 + i)
	}
	texts := maps.Clone(texts)
	texts["many"] = "ä\n" + string(many) + "\tend\n" + string(many)
	// The page has the focus when what is typed can be copied.
	eventually(t, "page takes keys", func() bool {
		p.setText("")
		p.text("ready")
		p.chord(0xffe3, 'a')
		p.chord(0xffe3, 'c')
		return p.getText() != ""
	})
	// What was copied late is behind us when another text has been.
	p.chord(0xffe3, 'a')
	p.text("set")
	copiedText(t, p, "set")
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
					copiedText(t, p, text)
					p.chord(0xffff)
				})
			}
			t.Run("address bar", func(t *testing.T) {
				// The page sees Control+L first. Keys go to the bar when what is in it
				// can be copied: the page is empty.
				copied(t, p, 'l', func(string) bool { return true })
				p.text("grüße-Ж漢😀~^`")
				copiedText(t, p, "grüße-Ж漢😀~^`")
				p.chord(0xff1b)
				p.play(guest.InputEvent{Kind: "move", X: 500, Y: 500},
					guest.InputEvent{Kind: "button", Button: 1, Down: true}, guest.InputEvent{Kind: "button", Button: 1})
			})
		})
	}
	eventually(t, "spare keys returned", func() bool {
		return !strings.Contains(string(x.output(t, nil, "xmodmap", "-pke")), "U4E")
	})
}
