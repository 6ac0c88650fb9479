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

func setLayout(t *testing.T, layout string) {
	t.Helper()
	if err := desk.Screen().SetKeyboard(t.Context(), layout); err != nil {
		t.Fatalf("set layout %s: %v", layout, err)
	}
	t.Cleanup(func() { _ = desk.Screen().SetKeyboard(context.Background(), "us") })
}

// equalsSoon waits until read gives want; typed text takes a while to be drawn.
func equalsSoon(t *testing.T, want string, read func(ctx context.Context) (string, error)) {
	t.Helper()
	until(t, time.Minute, "the text", func(ctx context.Context) error {
		got, err := read(ctx)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("got  %q\nwant %q", got, want)
		}
		return nil
	})
}

func TestTypeIntoXterm(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			dir := folder(t)
			setLayout(t, layout)
			launch(t, "xterm", "-u8", "-T", "typing", "-e", "sh", "-c", "exec cat > "+dir+"/typed")
			focus(t, window(t, "typing", func(w api.Window) bool { return w.Title == "typing" }))
			text := line + "\n\tsecond\tline\n"
			if err := desk.Type(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			equalsSoon(t, text, func(ctx context.Context) (string, error) {
				b, err := desk.Files().Read(ctx, dir+"/typed")
				return string(b), err
			})
		})
	}
}

func TestTypeIntoEditor(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			file := folder(t) + "/note.txt"
			setLayout(t, layout)
			put(t, file, "")
			editor(t, file)
			text := line + "\n\tsecond\tline"
			if err := desk.Type(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			saved(t, file, text)
		})
	}
}

// editor opens a file in the GTK editor and gives it the focus.
func editor(t *testing.T, file string) {
	t.Helper()
	launch(t, "mousepad", "--disable-server", file)
	focus(t, window(t, "mousepad", ofClass("mousepad")))
	still(t)
}

// saved presses ctrl+s until the file holds text; the editor adds a newline at
// the end.
func saved(t *testing.T, file, text string) {
	t.Helper()
	until(t, time.Minute, "the saved file", func(ctx context.Context) error {
		if err := desk.Key(ctx, "ctrl+s"); err != nil {
			return err
		}
		still(t)
		b, err := desk.Files().Read(ctx, file)
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
	file := folder(t) + "/long.txt"
	put(t, file, "")
	editor(t, file)
	if err := desk.Clipboard().SetText(t.Context(), "mine, äöü"); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat(line+"\n", 60)
	begin := time.Now()
	reply, err := desk.Input().Act(t.Context(), api.Action{Kind: "text", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%d characters in %s by %s", len([]rune(text)), took.Round(time.Millisecond), reply.Results[0].How)
	saved(t, file, text)
	if got, err := desk.Clipboard().Text(t.Context()); err != nil || got != "mine, äöü" {
		t.Errorf("clipboard is %q, %v", got, err)
	}
}

// TestTypeIntoBrowser types into Chromium's address bar and copies it out.
func TestTypeIntoBrowser(t *testing.T) {
	launch(t, "chromium", "--new-window", "about:blank")
	browser := window(t, "chromium", ofClass("chromium"))
	focus(t, browser)
	until(t, 2*time.Minute, "a browser that is drawn", func(ctx context.Context) error {
		still(t)
		return nil
	})
	for _, layout := range layouts {
		t.Run(layout, func(t *testing.T) {
			setLayout(t, layout)
			until(t, 2*time.Minute, "the text in the address bar", func(ctx context.Context) error {
				for _, chord := range []string{"ctrl+l", "ctrl+a", "Delete"} {
					if err := desk.Key(ctx, chord); err != nil {
						return err
					}
				}
				if err := desk.Type(ctx, line); err != nil {
					return err
				}
				still(t)
				if err := desk.Clipboard().SetText(ctx, "-"); err != nil {
					return err
				}
				for _, chord := range []string{"ctrl+a", "ctrl+c"} {
					if err := desk.Key(ctx, chord); err != nil {
						return err
					}
				}
				still(t)
				got, err := desk.Clipboard().Text(ctx)
				if err != nil {
					return err
				}
				if got == "-" {
					return errors.New("nothing was copied yet")
				}
				if got != line {
					t.Errorf("got  %q\nwant %q", got, line)
				}
				return nil
			})
		})
	}
}
