//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// recorder shows a window at (200,150), 600x400, that writes down every event.
type recorder struct {
	d    desk
	file string
	from int // bytes of the file that do not count any more
}

func (d desk) record(t *testing.T) *recorder {
	t.Helper()
	dir := d.folder(t)
	d.put(t, dir+"/recorder.py", recorderPy)
	r := &recorder{d: d, file: dir + "/events"}
	d.launch(t, "python3", dir+"/recorder.py", r.file, "200", "150", "600", "400")
	d.until(t, time.Minute, "the recorder's window", func(context.Context) error {
		if out := d.shell(t, "cat "+r.file); !strings.HasPrefix(string(out.Stdout), "ready") {
			return errors.New("not ready")
		}
		return nil
	})
	return r
}

// restart forgets the events so far: one window serves many cases, because a
// program takes seconds to start.
func (r *recorder) restart(t *testing.T) {
	t.Helper()
	r.from = len(r.d.get(t, r.file))
}

// lines are the events so far whose first word is one of kinds.
func (r *recorder) lines(t *testing.T, kinds ...string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(r.d.get(t, r.file)[r.from:]) {
		for _, k := range kinds {
			if strings.HasPrefix(line, k+" ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// expect waits until the events of these kinds, without their times, are want.
func (r *recorder) expect(t *testing.T, want []string, kinds ...string) {
	t.Helper()
	r.d.until(t, 30*time.Second, "events", func(context.Context) error {
		var got []string
		for _, line := range r.lines(t, kinds...) {
			f := strings.Fields(line)
			switch f[0] {
			case "press", "release":
				f = f[:4] // kind, button, x, y
			case "keydown", "keyup":
				f = f[:2] // kind, key
			}
			got = append(got, strings.Join(f, " "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

func at(x, y int) (px, py *int) { return &x, &y }

func TestInputClicks(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	for _, button := range []struct {
		name   string
		number int
	}{{"left", 1}, {"middle", 2}, {"right", 3}, {"back", 8}, {"forward", 9}} {
		t.Run(button.name, func(t *testing.T) {
			r.restart(t)
			if err := d.Input().Click(t.Context(), 345, 234, client.ClickOptions{Button: button.name}); err != nil {
				t.Fatal(err)
			}
			r.expect(t, []string{
				fmt.Sprintf("press %d 345 234", button.number), fmt.Sprintf("release %d 345 234", button.number),
			}, "press", "release")
		})
	}
}

func TestInputDoubleClick(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	if err := d.Input().Click(t.Context(), 300, 300, client.ClickOptions{Count: 2}); err != nil {
		t.Fatal(err)
	}
	r.expect(t, []string{"press 1 300 300", "release 1 300 300", "press 1 300 300", "release 1 300 300"}, "press", "release")
	var first, second int64
	lines := r.lines(t, "press")
	_, _ = fmt.Sscanf(lines[0], "press 1 300 300 %d %d", new(int), &first)
	_, _ = fmt.Sscanf(lines[1], "press 1 300 300 %d %d", new(int), &second)
	if gap := second - first; gap <= 0 || gap > 400 {
		t.Errorf("presses are %d ms apart; a double click has at most 400", gap)
	}
}

// TestInputReachesEveryPixel: the corners are valid, and what is outside is
// refused and says so.
func TestInputReachesEveryPixel(t *testing.T) {
	d := lend(t)
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, h := info.Display.Width, info.Display.Height
	for _, p := range [][2]int{{0, 0}, {w - 1, 0}, {0, h - 1}, {w - 1, h - 1}, {1, 1}, {w / 2, h / 2}, {333, 777}} {
		x, y := at(p[0], p[1])
		reply, err := d.Input().Act(t.Context(), api.Action{Kind: "move", X: x, Y: y})
		if err != nil {
			t.Fatal(err)
		}
		if reply.Results[0].Effect != api.EffectConfirmed {
			t.Errorf("move to %v: effect %s", p, reply.Results[0].Effect)
		}
		got, err := d.Screen().Pointer(t.Context())
		if err != nil || got.X != p[0] || got.Y != p[1] {
			t.Errorf("pointer at %+v (%v), want %v", got, err, p)
		}
	}
	code(t, d.Input().Move(t.Context(), w, 0), api.CodeInvalid)
	code(t, d.Input().Move(t.Context(), -1, 5), api.CodeInvalid)
}

// TestInputInImageSpace clicks a point that was read off a scaled picture.
func TestInputInImageSpace(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, y := at(150, 100)
	if _, err := d.Input().Do(t.Context(), api.InputBatch{ImageWidth: info.Display.Width / 2, Actions: []api.Action{{Kind: "click", X: x, Y: y}}}); err != nil {
		t.Fatal(err)
	}
	d.until(t, 30*time.Second, "a click", func(context.Context) error {
		got := r.lines(t, "press")
		if len(got) != 1 {
			return fmt.Errorf("%v", got)
		}
		var px, py int
		_, _ = fmt.Sscanf(got[0], "press 1 %d %d", &px, &py)
		if px < 300 || px > 301 || py < 200 || py > 201 {
			t.Errorf("landed at %d,%d; want the middle of 300..301, 200..201", px, py)
		}
		return nil
	})
}

func TestInputDrag(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	begin := time.Now()
	if err := d.Input().Drag(t.Context(), [][2]int{{250, 200}, {450, 200}, {450, 350}}, "left", 500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 450*time.Millisecond {
		t.Errorf("a drag of 500 ms took %s", took)
	}
	r.expect(t, []string{"press 1 250 200", "release 1 450 350"}, "press", "release")
	held := 0
	for _, line := range r.lines(t, "motion") {
		var x, y, state int
		_, _ = fmt.Sscanf(line, "motion %d %d %d", &x, &y, &state)
		if state&(1<<8) != 0 {
			held++
			if y != 200 && x != 450 {
				t.Errorf("off the path: %s", line)
			}
		}
	}
	if held < 5 {
		t.Errorf("%d moves with the button held; the path is not walked", held)
	}
}

func TestInputScroll(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	for _, tt := range []struct {
		name           string
		dx, dy, button int
	}{{"down", 0, 3, 5}, {"up", 0, -2, 4}, {"right", 2, 0, 7}, {"left", -1, 0, 6}} {
		t.Run(tt.name, func(t *testing.T) {
			r.restart(t)
			if err := d.Input().Scroll(t.Context(), api.Point{X: 400, Y: 300}, tt.dx, tt.dy); err != nil {
				t.Fatal(err)
			}
			var want []string
			for range max(tt.dx, -tt.dx, tt.dy, -tt.dy) {
				want = append(want, fmt.Sprintf("press %d 400 300", tt.button))
			}
			r.expect(t, want, "press")
		})
	}
}

func TestInputKeys(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	for _, tt := range []struct {
		chord string
		want  []string
	}{
		{"Return", []string{"keydown Return", "keyup Return"}},
		{"enter", []string{"keydown Return", "keyup Return"}},
		{"CTRL+s", []string{"keydown Control_L", "keydown s", "keyup s", "keyup Control_L"}},
		{"ctrl+shift+T", []string{"keydown Control_L", "keydown Shift_L", "keydown T", "keyup T", "keyup Shift_L", "keyup Control_L"}},
		{"Page_Down", []string{"keydown Next", "keyup Next"}},
		{"ArrowUp", []string{"keydown Up", "keyup Up"}},
		{"F5", []string{"keydown F5", "keyup F5"}},
		{"ctrl++", nil},
		{"BackSpace", []string{"keydown BackSpace", "keyup BackSpace"}},
	} {
		t.Run(tt.chord, func(t *testing.T) {
			r.restart(t)
			if err := d.Key(t.Context(), tt.chord); err != nil {
				t.Fatal(err)
			}
			if tt.want != nil {
				r.expect(t, tt.want, "keydown", "keyup")
				return
			}
			// A chord whose keys depend on the layout.
			d.until(t, 30*time.Second, "keys", func(context.Context) error {
				if got := strings.Join(r.lines(t, "keydown"), ","); !strings.Contains(got, "keydown plus") {
					return errors.New(got)
				}
				return nil
			})
		})
	}
	err := d.Key(t.Context(), "NoSuchKey")
	code(t, err, api.CodeInvalid)
}

// TestInputHold repeats at the stated rate and lets go.
func TestInputHold(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	if err := d.Input().Hold(t.Context(), "x", time.Second, 10); err != nil {
		t.Fatal(err)
	}
	d.until(t, 30*time.Second, "the release", func(context.Context) error {
		down, up := len(r.lines(t, "keydown")), len(r.lines(t, "keyup"))
		if down < 8 || down > 12 || up < 1 {
			return fmt.Errorf("%d presses, %d releases", down, up)
		}
		return nil
	})
}

// TestInputReleases: what a batch holds down when it fails is let go.
func TestInputReleases(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	x, y := at(300, 300)
	far, away := at(9000, 9000)
	reply, err := d.Input().Act(t.Context(),
		api.Action{Kind: "down", X: x, Y: y},
		api.Action{Kind: "move", X: far, Y: away},
		api.Action{Kind: "click", X: x, Y: y})
	if err == nil && reply.Error == nil {
		t.Fatal("a move to 9000,9000 succeeded")
	}
	r.expect(t, []string{"press 1 300 300", "release 1 300 300"}, "press", "release")
}

// TestInputKeysInLayouts: a key is what it is called, wherever the layout has
// it: the keys below lie elsewhere than on a US keyboard, or nowhere.
func TestInputKeysInLayouts(t *testing.T) {
	d := lend(t)
	r := d.record(t)
	for _, tt := range []struct{ layout, chord, key string }{
		{"de", "ctrl+z", "z"}, {"fr", "ctrl+a", "a"}, {"ru", "ctrl+s", "s"}, {"de", "ctrl+minus", "minus"},
	} {
		t.Run(tt.layout+" "+tt.chord, func(t *testing.T) {
			d.setLayout(t, tt.layout)
			r.restart(t)
			if err := d.Key(t.Context(), tt.chord); err != nil {
				t.Fatal(err)
			}
			d.until(t, 30*time.Second, "keys", func(context.Context) error {
				got := strings.Join(r.lines(t, "keydown"), ",")
				if !strings.Contains(got, "keydown Control_L") || !strings.Contains(got, "keydown "+tt.key+" 4") {
					return errors.New(got)
				}
				return nil
			})
		})
	}
}
