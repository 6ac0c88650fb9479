package inject_test

import (
	"context"
	"errors"
	"image"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
)

func lines(s ...string) string { return strings.Join(s, "\n") }

func TestActions(t *testing.T) {
	half := desktop.View{Width: 640}
	tests := []struct {
		name   string
		helper bool
		do     inject.Action
		want   string
		effect desktop.Effect
	}{
		{"move", false, inject.Move{To: inject.Point{X: 0, Y: 0}}, "pointer 0,0 0x0", desktop.Unverified},
		{"move, read back", true, inject.Move{To: inject.Point{X: 1279, Y: 799}}, "pointer 1279,799 0x0", desktop.Confirmed},
		{"move on a halved image", true, inject.Move{To: inject.Point{X: 639, Y: 399, View: half}}, "pointer 1279,799 0x0", desktop.Confirmed},
		{"click", false, inject.Click{At: inject.At(5, 6)}, lines("pointer 5,6 0x0", "pointer 5,6 0x1", "pointer 5,6 0x0"), desktop.Confirmed},
		{"right click", false, inject.Click{At: inject.At(5, 6), Button: desktop.ButtonRight}, lines("pointer 5,6 0x0", "pointer 5,6 0x4", "pointer 5,6 0x0"), desktop.Confirmed},
		{"click in a region", true, inject.Click{At: &inject.Point{X: 9, Y: 4, View: desktop.View{Region: image.Rect(100, 100, 200, 150), Width: 10}}}, lines("pointer 195,145 0x0", "pointer 195,145 0x1", "pointer 195,145 0x0"), desktop.Confirmed},
		{"click with a key", false, inject.Click{At: inject.At(5, 6), Keys: []string{"ctrl"}}, lines("pointer 5,6 0x0", "Control_L down", "pointer 5,6 0x1", "pointer 5,6 0x0", "Control_L up"), desktop.Confirmed},
		{"back button", true, inject.Click{At: inject.At(1, 1), Button: desktop.ButtonBack}, lines("pointer 1,1 0x0", "helper button 0x80 down", "helper button 0x80 up"), desktop.Confirmed},
		{"scroll down and right", true, inject.Scroll{At: inject.At(7, 8), DX: 3, DY: 2}, lines("pointer 7,8 0x0", "pointer 7,8 0x10", "pointer 7,8 0x0", "pointer 7,8 0x10", "pointer 7,8 0x0", "helper scroll 3,0"), desktop.Confirmed},
		{"scroll up", false, inject.Scroll{At: inject.At(7, 8), DY: -1}, lines("pointer 7,8 0x0", "pointer 7,8 0x8", "pointer 7,8 0x0"), desktop.Confirmed},
		{"chord", false, inject.Key{Keys: []string{"ctrl+shift+t"}}, lines("Control_L down", "Shift_L down", "t down", "t up", "Shift_L up", "Control_L up"), desktop.Confirmed},
		{"chord as a list", false, inject.Key{Keys: []string{"CTRL", "A"}}, lines("Control_L down", "a down", "a up", "Control_L up"), desktop.Confirmed},
		{"key that only the helper has", true, inject.Key{Keys: []string{"ctrl+ß"}}, lines("Control_L down", "helper ssharp down", "helper ssharp up", "Control_L up"), desktop.Confirmed},
		{"text by keys", false, inject.Text{Text: "Hi, X!\n"}, lines("Shift_L down", "H down", "H up", "Shift_L up", "i down", "i up", "comma down", "comma up", "space down", "space up", "Shift_L down", "X down", "X up", "exclam down", "exclam up", "Shift_L up", "Return down", "Return up"), desktop.Confirmed},
		{"text by the helper", true, inject.Text{Text: "Grüße, мир 世界 🙂"}, `helper text "Grüße, мир 世界 🙂" at 30/s`, desktop.Confirmed},
		{"wait", false, inject.Wait{Duration: time.Second}, "", desktop.Confirmed},
		{"nothing to type", false, inject.Text{}, "", desktop.Confirmed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				r, err := injector(t, m, tt.helper).Do(t.Context(), tt.do)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, m.told()); diff != "" {
					t.Error(diff)
				}
				if r[0].Effect != tt.effect {
					t.Errorf("effect %q (%s), want %q", r[0].Effect, r[0].How, tt.effect)
				}
			})
		})
	}
}

func TestTiming(t *testing.T) {
	tests := []struct {
		name string
		do   inject.Action
		want string
	}{
		{"double click", inject.Click{At: inject.At(1, 2), Count: 2}, lines(
			"0ms pointer 1,2 0x0", "15ms pointer 1,2 0x1", "55ms pointer 1,2 0x0", "115ms pointer 1,2 0x1", "155ms pointer 1,2 0x0")},
		{"thirty keys a second, half of it pressed", inject.Text{Text: "abc"}, lines(
			"0ms a down", "16ms a up", "33ms b down", "49ms b up", "66ms c down", "83ms c up")},
		{"hold with repeats", inject.Hold{Keys: []string{"Left"}, Duration: time.Second, Rate: 4}, lines(
			"0ms Left down", "125ms Left up", "250ms Left down", "375ms Left up", "500ms Left down", "625ms Left up", "750ms Left down", "1000ms Left up")},
		{"hold without repeats", inject.Hold{Keys: []string{"shift", "a"}, Duration: time.Second}, lines(
			"0ms Shift_L down", "33ms a down", "1033ms a up", "1033ms Shift_L up")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				m.timed = true
				if _, err := injector(t, m, false).Do(t.Context(), tt.do); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, m.told()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestDrag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		begun := time.Now()
		drag := inject.Drag{Path: []inject.Point{{X: 0, Y: 0}, {X: 100, Y: 0}, {X: 100, Y: 100}}, Duration: time.Second}
		r, err := injector(t, m, true).Do(t.Context(), drag)
		if err != nil || r[0].Effect != desktop.Confirmed || *r[0].At != image.Pt(100, 100) {
			t.Fatalf("%+v, %v", r, err)
		}
		if took := time.Since(begun); took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("a drag of a second took %v", took)
		}
		got := strings.Split(m.told(), "\n")
		if got[0] != "pointer 0,0 0x0" || got[1] != "pointer 0,0 0x1" || got[len(got)-1] != "pointer 100,100 0x0" {
			t.Errorf("begins %q, ends %q", got[:2], got[len(got)-1])
		}
		if len(got) < 60 {
			t.Errorf("only %d moves", len(got))
		}
		for _, line := range got[1 : len(got)-1] {
			if !strings.HasSuffix(line, " 0x1") {
				t.Errorf("the button is not held: %s", line)
			}
		}
		// The second half of the path begins after half of the time.
		if mid := got[len(got)/2]; !strings.HasPrefix(mid, "pointer 100,") && !strings.HasPrefix(mid, "pointer 9") {
			t.Errorf("half way: %s", mid)
		}
		if _, err := injector(t, m, false).Do(t.Context(), inject.Drag{Path: []inject.Point{{X: 5, Y: 5}}}); !errors.Is(err, desktop.ErrUnsupported) {
			t.Errorf("drag from an unknown place: %v", err)
		}
	})
}

// Wherever the wire breaks, the batch stops there and nothing stays pressed.
func TestNothingStaysPressed(t *testing.T) {
	batch := []inject.Action{
		inject.Key{Keys: []string{"ctrl+shift+ß"}},
		inject.Drag{Path: []inject.Point{{X: 1, Y: 1}, {X: 50, Y: 50}}, Keys: []string{"alt"}},
		inject.Click{At: inject.At(3, 3), Button: desktop.ButtonBack},
		inject.Text{Text: "AB"},
		inject.Hold{Keys: []string{"Left"}, Duration: time.Second, Rate: 3},
	}
	for failAt := 1; ; failAt++ {
		done := false
		synctest.Test(t, func(t *testing.T) {
			m := newMachine()
			m.failAt = failAt
			in := injector(t, m, true)
			r, err := in.Do(t.Context(), batch...)
			if err == nil {
				done = true
			}
			var at *inject.BatchError
			if err != nil && (!errors.As(err, &at) || !errors.Is(err, errBroken) || at.Index != len(r)) {
				t.Fatalf("call %d broken: %v after %d results", failAt, err, len(r))
			}
			if len(m.down) > 0 {
				t.Fatalf("call %d broken: %v stay pressed", failAt, m.down)
			}
			if held, err := in.Held(t.Context()); held || err != nil {
				t.Fatalf("call %d broken: held %v, %v", failAt, held, err)
			}
		})
		if done {
			break
		}
	}
}

func TestCancelReleases(t *testing.T) {
	for _, a := range []inject.Action{
		inject.Hold{Keys: []string{"shift", "a"}, Duration: time.Minute},
		inject.Drag{Path: []inject.Point{{X: 1, Y: 1}, {X: 900, Y: 700}}, Duration: time.Minute},
		inject.Text{Text: strings.Repeat("A", 500)},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMachine()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := injector(t, m, false).Do(ctx, inject.Wait{Duration: time.Second}, a)
			var at *inject.BatchError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &at) || at.Index != 1 {
				t.Errorf("%T: %v", a, err)
			}
			if len(m.down) > 0 {
				t.Errorf("%T: %v stay pressed", a, m.down)
			}
		})
	}
}

func TestHeldAcrossCallsAndHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		in := injector(t, m, false)
		if _, err := in.Do(t.Context(), inject.Down{At: inject.At(4, 4)}, inject.KeyDown{Keys: []string{"shift"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Do(t.Context(), inject.Move{To: inject.Point{X: 9, Y: 9}}); err != nil {
			t.Fatal(err)
		}
		if got := m.told(); !strings.HasSuffix(got, "pointer 9,9 0x1") {
			t.Errorf("the button is not held while moving: %s", got)
		}
		if _, err := in.Do(t.Context(), inject.Up{At: inject.At(10, 10)}, inject.KeyUp{Keys: []string{"shift"}}); err != nil {
			t.Fatal(err)
		}
		if held, _ := in.Held(t.Context()); held || len(m.down) > 0 {
			t.Errorf("held %v, machine has %v", held, m.down)
		}
		if _, err := in.Do(t.Context(), inject.Down{}, inject.KeyDown{Keys: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		if err := in.Release(t.Context()); err != nil || len(m.down) > 0 {
			t.Errorf("hand-over: %v, %v pressed", err, m.down)
		}
	})
}

func TestSerialised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		in := injector(t, m, false)
		var all sync.WaitGroup
		for _, word := range []string{"aaaa", "bbbb", "cccc"} {
			all.Go(func() {
				if _, err := in.Do(t.Context(), inject.Text{Text: word}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got := strings.NewReplacer(" down", "", " up", "", "\n", "").Replace(m.told())
		for _, word := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
			if !strings.Contains(got, word) {
				t.Errorf("words are mixed: %s", got)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = in.Do(t.Context(), inject.Wait{Duration: time.Second}) }()
		synctest.Wait()
		cancel()
		if _, err := in.Do(ctx, inject.Wait{}); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for a turn: %v", err)
		}
		<-time.After(2 * time.Second)
	})
}

// TestKeysByMeaning: where places mean other keys, the helper presses them; a
// guest without a session gets them by place all the same.
func TestKeysByMeaning(t *testing.T) {
	byHelper := lines("helper Control_L down", "helper z down", "helper z up", "helper Control_L up")
	byPlace := lines("Control_L down", "z down", "z up", "Control_L up")
	for name, tt := range map[string]struct {
		other, noSession bool
		want             string
	}{
		"another layout": {other: true, want: byHelper},
		"the same":       {want: byPlace},
		"no session":     {other: true, noSession: true, want: byPlace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				m.noSess = tt.noSession
				in, err := inject.New(inject.Config{
					Source: m, Input: m, Helper: helper{m}, ByMeaning: func() bool { return tt.other },
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := in.Do(t.Context(), inject.Key{Keys: []string{"ctrl+z"}}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, m.told()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
