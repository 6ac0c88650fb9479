//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// The text that has to arrive exactly: ASCII with everything that needs a
// shift, umlauts, Cyrillic, CJK, an emoji beyond the first plane, tab, newline.
const line = `The "quick" brown_fox <jumps> {over} the \lazy\ dog? 0123456789 @#$%^&*()~` + "`" +
	` Grüße ÄÖÜß éèç Привет, мир 世界こんにちは 🦊`

// layouts are what the guest's keyboard may be set to.
var layouts = []string{"us", "de", "ru", "fr"}

func (d desk) setLayout(t *testing.T, layout string) {
	t.Helper()
	if err := d.Screen().SetKeyboard(t.Context(), layout); err != nil {
		t.Fatalf("set layout %s: %v", layout, err)
	}
	t.Cleanup(func() { _ = d.Screen().SetKeyboard(context.Background(), "us") })
}

// TestTypeIntoXterm types in each layout into one terminal.
func TestTypeIntoXterm(t *testing.T) {
	d := lend(t)
	file := d.folder(t) + "/typed"
	d.launch(t, "xterm", "-u8", "-T", "typing", "-e", "sh", "-c", "exec cat > "+file)
	d.focus(t, d.window(t, "typing", func(w api.Window) bool { return w.Title == "typing" }))
	sofar := ""
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			d.setLayout(t, layout)
			text := line + "\n\tsecond\tline\n"
			if err := d.Type(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			sofar += text
			// What was typed takes a while to be read.
			d.until(t, time.Minute, "the text", func(ctx context.Context) error {
				b, err := d.Files().Read(ctx, file)
				if err != nil {
					return err
				}
				if got := string(b); got != sofar {
					return fmt.Errorf("got  %q\nwant %q", got, sofar)
				}
				return nil
			})
		})
	}
}

// TestTypeIntoEditor types in each layout into one editor.
func TestTypeIntoEditor(t *testing.T) {
	d := lend(t)
	file := d.folder(t) + "/note.txt"
	d.put(t, file, "")
	d.editor(t, file)
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			d.setLayout(t, layout)
			d.chords(t, "ctrl+a", "Delete")
			text := line + "\n\tsecond\tline " + layout
			if err := d.Type(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			d.saved(t, file, text)
		})
	}
}

// editor opens a file in the GTK editor and gives it the focus.
func (d desk) editor(t *testing.T, file string) {
	t.Helper()
	d.launch(t, "mousepad", "--disable-server", file)
	d.focus(t, d.window(t, "mousepad", ofClass("mousepad")))
	d.still(t)
}

// saved presses ctrl+s until the file holds text; the editor adds a newline at
// the end.
func (d desk) saved(t *testing.T, file, text string) {
	t.Helper()
	d.until(t, time.Minute, "the saved file", func(ctx context.Context) error {
		if err := d.Key(ctx, "ctrl+s"); err != nil {
			return err
		}
		d.still(t)
		b, err := d.Files().Read(ctx, file)
		if err != nil {
			return err
		}
		if got := strings.TrimSuffix(string(b), "\n"); got != strings.TrimSuffix(text, "\n") {
			return fmt.Errorf("got  %q\nwant %q", got, text)
		}
		return nil
	})
}

// TestTypeLongText pastes: fast, exact, and the clipboard is as it was.
func TestTypeLongText(t *testing.T) {
	d := lend(t)
	file := d.folder(t) + "/long.txt"
	d.put(t, file, "")
	d.editor(t, file)
	if err := d.Clipboard().SetText(t.Context(), "mine, äöü"); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat(line+"\n", 60)
	begin := time.Now()
	reply, err := d.Input().Act(t.Context(), api.Action{Kind: "text", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%d characters in %s by %s", len([]rune(text)), took.Round(time.Millisecond), reply.Results[0].How)
	d.saved(t, file, text)
	if got, err := d.Clipboard().Text(t.Context()); err != nil || got != "mine, äöü" {
		t.Errorf("clipboard is %q, %v", got, err)
	}
}

// TestTypeIntoBrowser types in each layout into the address bar of one Chromium
// and copies it out.
func TestTypeIntoBrowser(t *testing.T) {
	d := lend(t)
	d.launch(t, "chromium", "--new-window", "about:blank")
	browser := d.window(t, "chromium", ofClass("chromium"))
	// A browser that ran already has made the window, and stays.
	t.Cleanup(func() { _ = d.Windows().Close(context.Background(), browser.ID) })
	d.focus(t, browser)
	d.still(t)
	// A browser that starts copies late what it was asked to more than once. That
	// is behind us when another text has been copied.
	d.copied(t, "ctrl+l")
	if err := d.Type(t.Context(), "set"); err != nil {
		t.Fatal(err)
	}
	d.until(t, 2*time.Minute, "a browser that keeps up", func(context.Context) error {
		if got := d.copied(t, "ctrl+a"); got != "set" {
			return errors.New(got)
		}
		return nil
	})
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			d.setLayout(t, layout)
			// The page sees the chord first. Keys go to the bar when what is in it
			// can be copied: the page is empty.
			d.copied(t, "ctrl+l")
			if err := d.Type(t.Context(), line); err != nil {
				t.Fatal(err)
			}
			if got := d.copied(t, "ctrl+a"); got != line {
				d.picture(t)
				t.Errorf("got  %q\nwant %q", got, line)
			}
		})
	}
}

func (d desk) chords(t *testing.T, chords ...string) {
	t.Helper()
	for _, chord := range chords {
		if err := d.Key(t.Context(), chord); err != nil {
			t.Fatalf("press %s: %v", chord, err)
		}
	}
}

// copied presses a chord that selects something, and copies it. The keys are
// pressed again when nothing comes of them: a browser that starts drops some.
func (d desk) copied(t *testing.T, selects string) string {
	t.Helper()
	const nothing = "nothing was copied"
	if err := d.Clipboard().SetText(t.Context(), nothing); err != nil {
		t.Fatal(err)
	}
	var got string
	pressed := time.Time{}
	d.until(t, 2*time.Minute, "a copy", func(ctx context.Context) (err error) {
		if time.Since(pressed) > 20*time.Second {
			d.chords(t, selects, "ctrl+c")
			pressed = time.Now()
		}
		if got, err = d.Clipboard().Text(ctx); err == nil && got == nothing {
			err = errors.New(nothing)
		}
		return err
	})
	return got
}
