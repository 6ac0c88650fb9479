package inject_test

import (
	"errors"
	"fmt"
	"image"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
)

func TestRefused(t *testing.T) {
	tests := []struct {
		name   string
		helper bool
		do     inject.Action
		want   error // nil: any
	}{
		{"right of the screen", false, inject.Click{At: inject.At(1280, 0)}, desktop.ErrOutside},
		{"above the screen", true, inject.Move{To: inject.Point{X: 0, Y: -1}}, desktop.ErrOutside},
		{"outside the image", false, inject.Move{To: inject.Point{X: 640, Y: 0, View: desktop.View{Width: 640}}}, desktop.ErrOutside},
		{"drag that leaves the screen", false, inject.Drag{Path: []inject.Point{{X: 1, Y: 1}, {X: 5000, Y: 1}}}, desktop.ErrOutside},
		{"click at an unknown place", false, inject.Click{}, desktop.ErrUnsupported},
		{"unknown key", false, inject.Key{Keys: []string{"ctrl+bogus"}}, desktop.ErrUnknownKey},
		{"no key", false, inject.Key{}, desktop.ErrUnknownKey},
		{"sideways without a helper", false, inject.Scroll{At: inject.At(1, 1), DX: 1}, desktop.ErrUnsupported},
		{"back button without a helper", false, inject.Click{At: inject.At(1, 1), Button: desktop.ButtonBack}, desktop.ErrUnsupported},
		{"umlaut without a helper", false, inject.Text{Text: "abcä"}, desktop.ErrUnsupported},
		{"key without a place, without a helper", false, inject.Key{Keys: []string{"д"}}, desktop.ErrUnsupported},
		{"two buttons", false, inject.Click{At: inject.At(1, 1), Button: 3}, nil},
		{"eleven clicks", false, inject.Click{At: inject.At(1, 1), Count: 11}, nil},
		{"too many steps", false, inject.Scroll{At: inject.At(1, 1), DY: 1001}, nil},
		{"no path", false, inject.Drag{}, nil},
		{"endless drag", false, inject.Drag{Path: []inject.Point{{}, {}}, Duration: time.Hour}, nil},
		{"endless wait", false, inject.Wait{Duration: time.Hour}, nil},
		{"repeats too fast", false, inject.Hold{Keys: []string{"a"}, Rate: 31}, nil},
		{"text that is no UTF-8", true, inject.Text{Text: "\xff"}, nil},
		{"text too long", true, inject.Text{Text: strings.Repeat("x", 1<<20+1)}, nil},
		{"nil", false, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				r, err := injector(t, m, tt.helper).Do(t.Context(), inject.Wait{}, tt.do)
				var at *inject.BatchError
				if !errors.As(err, &at) || at.Index != 1 || len(r) != 1 || (tt.want != nil && !errors.Is(err, tt.want)) {
					t.Errorf("%d results, %v; want %v", len(r), err, tt.want)
				}
				for line := range strings.Lines(m.told()) {
					if strings.Contains(line, "0x1") && tt.name != "back button without a helper" {
						t.Errorf("something was pressed all the same: %s", line)
					}
				}
			})
		})
	}
	for name, cfg := range map[string]inject.Config{"nothing": {}, "negative": {Source: newMachine(), Input: newMachine(), Rate: -1}} {
		if _, err := inject.New(cfg); err == nil {
			t.Errorf("a configuration with %s was accepted", name)
		}
	}
}

func TestEffects(t *testing.T) {
	tests := []struct {
		name   string
		set    func(m *machine)
		helper bool
		do     inject.Action
		want   desktop.Effect
		how    string
	}{
		{"nothing drew", func(m *machine) { m.draws = false }, false, inject.Key{Keys: []string{"a"}}, desktop.Unverified, "no pixel changed within 200ms"},
		{"something drew", func(*machine) {}, false, inject.Key{Keys: []string{"a"}}, desktop.Confirmed, "pixels changed"},
		{"the guest ignores the pointer", func(m *machine) { m.deaf = true; m.pointer = image.Pt(700, 700) }, true, inject.Move{To: inject.Point{X: 5, Y: 5}}, desktop.Unverified, "the guest has the pointer at (700,700)"},
		{"the guest rounds the pointer", func(m *machine) { m.off = image.Pt(-1, 0) }, true, inject.Move{To: inject.Point{X: 5, Y: 5}}, desktop.Confirmed, "pointer read back"},
		{"no session to read from", func(m *machine) { m.noSess = true }, true, inject.Move{To: inject.Point{X: 5, Y: 5}}, desktop.Unverified, "read pointer: no display"},
		{"no session to type in", func(m *machine) { m.noSess = true }, true, inject.Text{Text: "root"}, desktop.Confirmed, "typed by keys; pixels changed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMachine()
				tt.set(m)
				r, err := injector(t, m, tt.helper).Do(t.Context(), tt.do)
				if err != nil {
					t.Fatal(err)
				}
				if r[0].Effect != tt.want || r[0].How != tt.how {
					t.Errorf("%q (%s), want %q (%s)", r[0].Effect, r[0].How, tt.want, tt.how)
				}
			})
		})
	}
}

// The pace of a long text, and so whether it is pasted, is the helper's choice.
func TestLongText(t *testing.T) {
	long := strings.Repeat("Zeile ä\n", 200)
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.took = inject.Result{Effect: desktop.Confirmed, How: "pasted"}
		r, err := injector(t, m, true).Do(t.Context(), inject.Text{Text: long})
		if err != nil || r[0].Effect != desktop.Confirmed || r[0].How != "pasted" {
			t.Fatalf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(fmt.Sprintf("helper text %q at 0/s", long), m.told()); diff != "" {
			t.Error(diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		m.failAt = 1
		if _, err := injector(t, m, true).Do(t.Context(), inject.Text{Text: long}); !errors.Is(err, errBroken) {
			t.Fatalf("%v", err)
		}
	})
}
