//go:build integration

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/browser"
)

// step is what a page in Chromium is told to do; testdata/viewer.js has the words.
type step struct {
	Do     string   `json:"do"`
	Page   string   `json:"page"`
	URL    string   `json:"url,omitempty"`
	Text   string   `json:"text,omitempty"`
	File   string   `json:"file,omitempty"`
	Name   string   `json:"name,omitempty"`
	Names  []string `json:"names,omitempty"`
	Phone  bool     `json:"phone,omitempty"`
	X      int      `json:"x"`
	Y      int      `json:"y"`
	Every  int      `json:"every,omitempty"`
	Colour []int    `json:"colour,omitempty"`
}

// people are pages in one Chromium.
type people struct{ script *browser.Script }

func newPeople(t *testing.T) people {
	t.Helper()
	return people{browser.Start(t, "testdata/viewer.js", map[string]string{"server": host.URL(), "pictures": t.ArtifactDir()}, holdLimit)}
}

// do plays a step, and reads what it is answered with into v, if it is not nil.
func (p people) do(t *testing.T, s step, v any) {
	t.Helper()
	p.script.Say(s)
	var got struct {
		Value json.RawMessage `json:"value"`
		Error string          `json:"error"`
	}
	p.script.Next(&got)
	if got.Error != "" {
		t.Fatalf("%s on page %q: %s", s.Do, s.Page, got.Error)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(got.Value, v); err != nil {
		t.Fatalf("%s on page %q is answered %.200s: %v", s.Do, s.Page, got.Value, err)
	}
}

// all plays steps.
func (p people) all(t *testing.T, steps ...step) {
	t.Helper()
	for _, s := range steps {
		p.do(t, s, nil)
	}
}

// end holds the pages to what no page may do, and closes them.
func (p people) end(t *testing.T) {
	t.Helper()
	var faults []string
	if p.do(t, step{Do: "faults"}, &faults); len(faults) > 0 {
		t.Errorf("the pages complain: %s", strings.Join(faults, "; "))
	}
	p.script.Say(step{Do: "end"})
	p.script.Wait()
}

// link makes a link to the viewer's page of a desktop.
func (d desk) link(t *testing.T, role string, ttl time.Duration) string {
	t.Helper()
	k, err := d.Tickets().Create(t.Context(), api.CreateTicket{Kind: api.TicketView, Role: role, TTLS: int(ttl.Seconds())})
	if err != nil {
		t.Fatal(err)
	}
	return k.URL
}

// shared lets people use a desktop's clipboard.
func (d desk) shared(t *testing.T) {
	t.Helper()
	if _, err := d.Control().SetPolicy(t.Context(), api.ControlPolicy{Clipboard: "both"}); err != nil {
		t.Fatal(err)
	}
}

// mirrored waits until a page shows what the screen shows, all over it.
func (p people) mirrored(t *testing.T, d desk, page string) {
	t.Helper()
	const every = 16
	d.until(t, time.Minute, "the guest's screen on page "+page, func(context.Context) error {
		var seen []int
		p.do(t, step{Do: "grid", Page: page, Every: every}, &seen)
		img, _ := d.shot(t, client.ScreenshotOptions{})
		b := img.Bounds()
		if want := 3 * ((b.Dx() + every - 1) / every) * ((b.Dy() + every - 1) / every); len(seen) != want {
			return fmt.Errorf("%d numbers, want %d", len(seen), want)
		}
		sum, at := 0, 0
		for y := 0; y < b.Dy(); y += every {
			for x := 0; x < b.Dx(); x += every {
				r, g, b, _ := img.At(x, y).RGBA()
				for _, c := range []uint32{r, g, b} {
					off := int(c>>8) - seen[at]
					sum, at = sum+max(off, -off), at+1
				}
			}
		}
		// A sharp picture in limited range is off by 1 or 2.
		if mean := float64(sum) / float64(len(seen)); mean > 4 {
			return fmt.Errorf("colours are off by %.1f of 255 in the mean", mean)
		}
		return nil
	})
}

// viewed makes a desktop that shows a red window, and opens pages with its link.
func viewed(t *testing.T, name string, pages ...string) (d desk, p people, paint func(string)) {
	t.Helper()
	d = breakable(t, api.CreateDesktop{Name: name, WorkspaceMiB: 64}, api.StageDrawn)
	d.shared(t)
	p = newPeople(t)
	paint = d.painter(t)
	paint("c83214")
	for i, page := range pages {
		role := "control"
		if i > 0 {
			role = "view"
		}
		p.all(t, step{Do: "open", Page: page, URL: d.link(t, role, 0)}, step{Do: "live", Page: page},
			step{Do: "shows", Page: page, X: 250, Y: 200, Colour: []int{200, 50, 20}})
	}
	return d, p, paint
}

// TestViewerTogether: two people and an agent at a real guest. Both see its screen and
// who has control; one takes over in the middle of the agent's drag.
func TestViewerTogether(t *testing.T) {
	beside(t)
	d, p, paint := viewed(t, "together", "ann", "bob")
	p.mirrored(t, d, "ann")
	p.mirrored(t, d, "bob")
	paint("2864c8")
	for _, page := range []string{"ann", "bob"} {
		p.do(t, step{Do: "shows", Page: page, X: 250, Y: 200, Colour: []int{40, 100, 200}}, nil)
	}
	d.takenOver(t, p)
	p.end(t)
}

// TestViewerTyping: what a person types, pastes and drops on the page is in the guest,
// and what he copies there comes to the page.
func TestViewerTyping(t *testing.T) {
	beside(t)
	d, p, _ := viewed(t, "typing", "ann")
	p.do(t, step{Do: "take", Page: "ann"}, nil)
	d.typedByAPerson(t, p)
	p.do(t, step{Do: "drop", Page: "ann", File: "a note.txt", Text: "dropped by Ann\n"}, nil)
	if got := d.sh(t, "cat '/workspace/dropped/a note.txt'"); got != "dropped by Ann\n" {
		t.Errorf("dropped: %q", got)
	}
	p.end(t)
}

// TestViewerGlances: the dashboard shows the desktops as they are now, and a link that
// ends says so on its page.
func TestViewerGlances(t *testing.T) {
	beside(t)
	d, p, paint := viewed(t, "glanced")
	d.onTheDashboard(t, p, paint)
	p.all(t, step{Do: "open", Page: "late", URL: d.link(t, "view", 20*time.Second)}, step{Do: "live", Page: "late"},
		step{Do: "says", Page: "late", Text: "This link is not valid any more"})
	p.end(t)
}

// takenOver: an agent drags, both pages say so, and Ann takes control meanwhile.
func (d desk) takenOver(t *testing.T, p people) {
	t.Helper()
	r := d.record(t)
	r.restart(t)
	agent := d.Holding("robot", 0)
	if _, err := agent.Control().Change(t.Context(), api.ChangeControl{Action: api.ControlRequest, TTLS: 300}, 0); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- agent.Input().Drag(t.Context(), [][2]int{{300, 300}, {500, 400}, {700, 500}}, "left", 40*time.Second)
	}()
	d.until(t, 30*time.Second, "the drag's press", func(context.Context) error {
		if len(r.lines(t, "press")) == 0 {
			return errors.New("no press")
		}
		return nil
	})
	for _, page := range []string{"ann", "bob"} {
		p.do(t, step{Do: "says", Page: page, Text: "robot.* has control"}, nil)
	}
	p.do(t, step{Do: "take", Page: "ann"}, nil)
	select {
	case err := <-done:
		code(t, err, api.CodeControlHeld)
	case <-time.After(30 * time.Second):
		t.Fatal("the agent's drag goes on")
	}
	r.d.until(t, 30*time.Second, "the button let go", func(context.Context) error {
		if press, release := r.lines(t, "press"), r.lines(t, "release"); len(press) != 1 || len(release) != 1 {
			return fmt.Errorf("presses %q, releases %q", press, release)
		}
		return nil
	})
	code(t, agent.Input().Click(t.Context(), 300, 300, client.ClickOptions{}), api.CodeControlHeld)
	r.restart(t)
	p.all(t, step{Do: "click", Page: "ann", X: 400, Y: 350}, step{Do: "press", Page: "ann", Text: "Shift+F5"})
	r.expect(t, []string{"press 1 400 350", "release 1 400 350"}, "press", "release")
	r.expect(t, []string{"keydown Shift_L", "keydown F5", "keyup F5", "keyup Shift_L"}, "keydown", "keyup")
}

// typedByAPerson: what Ann types and pastes on the page reaches a program, and what
// she marks in it comes back to her.
func (d desk) typedByAPerson(t *testing.T, p people) {
	t.Helper()
	dir := d.folder(t)
	file, argv := dir+"/typed", []string{"xterm", "-u8", "-T", "typing", "-geometry", "60x20+450+330", "-xrm", "XTerm*selectToClipboard: true"}
	// Control is Ann's: nobody else launches anything.
	d.sh(t, "DISPLAY=:0 setsid -f "+quoted(append(argv, "-e", "sh", "-c", "exec cat > "+file)))
	w := d.window(t, "typing", func(w api.Window) bool { return w.Title == "typing" })
	p.all(t, step{Do: "click", Page: "ann", X: w.X + 200, Y: w.Y + 200})
	d.until(t, 30*time.Second, "the focus", func(ctx context.Context) error {
		if now := d.window(t, "typing", func(x api.Window) bool { return x.ID == w.ID }); !now.Active {
			return errors.New("not focused")
		}
		return nil
	})
	const text = "marked words; Grüße, 日本 \"quoted\" $HOME @{x}"
	p.all(t, step{Do: "type", Page: "ann", Text: text + "\n"}, step{Do: "paste", Page: "ann", Text: "pasted ß\n"})
	d.until(t, 30*time.Second, "what was typed", func(context.Context) error {
		if got := d.get(t, file); got != text+"\n" {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	d.until(t, 30*time.Second, "the clipboard", func(ctx context.Context) error {
		if got, err := d.Clipboard().Text(ctx); err != nil || got != "pasted ß\n" {
			return fmt.Errorf("clipboard %q, %w", got, err)
		}
		return nil
	})
	p.do(t, step{Do: "press", Page: "ann", Text: "Shift+Insert"}, nil) // the line's end is part of it: an Enter could overtake the paste
	d.until(t, 30*time.Second, "what was pasted", func(context.Context) error {
		if got := d.get(t, file); got != text+"\npasted ß\n" {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	// Below the title and from within the frame: the first line.
	p.all(t, step{Do: "mark", Page: "ann", X: w.X + 8, Y: w.Y + 39}, step{Do: "copied", Page: "ann", Text: "marked"})
}

// quoted is a command line for a shell.
func quoted(argv []string) string {
	var out []string
	for _, a := range argv {
		out = append(out, "'"+a+"'")
	}
	return strings.Join(out, " ")
}

// onTheDashboard: a person who opens the dashboard sees every desktop as it is now.
func (d desk) onTheDashboard(t *testing.T, p people, paint func(string)) {
	t.Helper()
	k, err := host.Client.ProjectTickets().Create(t.Context(), api.CreateTicket{Kind: api.TicketView, Role: "view"})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{d.Info.Name}
	for _, other := range desktops {
		names = append(names, other.Name)
	}
	thumbs := step{Do: "thumbs", Page: "dashboard", Names: names, Name: d.Info.Name, X: 150, Y: 150, Colour: []int{200, 50, 20}}
	p.all(t, step{Do: "open", Page: "dashboard", URL: k.URL}, thumbs)
	paint("30a050")
	thumbs.Colour = []int{48, 160, 80}
	p.all(t, thumbs, step{Do: "picture", Page: "dashboard", Text: "dashboard"})
}
