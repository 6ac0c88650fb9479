package inject_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
	"github.com/deskfork/deskfork/pkg/desktop/keysym"
)

// machine is a screen, an Input and a guest in one. Every change of input is a
// line of its log; with draws set, every key and button also changes a pixel.
type machine struct {
	mu      sync.Mutex
	log     []string
	begun   time.Time
	timed   bool // lines begin with the time
	seq     uint64
	changed chan struct{}
	draws   bool
	size    image.Point
	failAt  int // the input call that fails, from 1
	calls   int
	down    []string // keys and buttons that are pressed, as the machine sees it
	mask    desktop.Button
	pointer image.Point
	off     image.Point   // what the guest's rounding does to the pointer
	deaf    bool          // the guest's pointer does not move
	took    inject.Result // of a text by the helper
	noSess  bool          // the guest has no desktop session
}

func newMachine() *machine {
	return &machine{begun: time.Now(), seq: 1, changed: make(chan struct{}), size: image.Pt(1280, 800), draws: true}
}

var errBroken = errors.New("the wire broke")

func (m *machine) say(draw bool, format string, args ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.calls == m.failAt {
		return errBroken
	}
	line := fmt.Sprintf(format, args...)
	if m.timed {
		line = fmt.Sprintf("%dms %s", time.Since(m.begun).Milliseconds(), line)
	}
	m.log = append(m.log, line)
	if draw && m.draws {
		m.seq++
		close(m.changed)
		m.changed = make(chan struct{})
	}
	return nil
}

func (m *machine) press(what string, down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.down, what)
	if down && i < 0 {
		m.down = append(m.down, what)
	} else if !down && i >= 0 {
		m.down = slices.Delete(m.down, i, i+1)
	}
}

func (m *machine) Frame(context.Context) (*desktop.Frame, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &desktop.Frame{Image: &image.RGBA{Rect: image.Rectangle{Max: m.size}}, Seq: m.seq, At: time.Now()}, nil
}

func (m *machine) Next(ctx context.Context, after uint64) (*desktop.Frame, error) {
	for {
		m.mu.Lock()
		seq, changed := m.seq, m.changed
		m.mu.Unlock()
		if seq > after {
			return m.Frame(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *machine) Pointer(_ context.Context, x, y int, b desktop.Button) error {
	if b > 0x1f {
		return desktop.ErrUnsupported
	}
	if err := m.say(b != m.mask, "pointer %d,%d %#x", x, y, b); err != nil {
		return err
	}
	m.mask = b
	if !m.deaf {
		m.pointer = image.Pt(x, y).Add(m.off)
	}
	m.press("buttons", b != 0)
	return nil
}

func (m *machine) Key(_ context.Context, k desktop.Key, down bool) error {
	if k.Code == 0 {
		return desktop.ErrUnsupported
	}
	if err := m.say(true, "%s %s", keysym.Name(k.Sym), way(down)); err != nil {
		return err
	}
	m.press(keysym.Name(k.Sym), down)
	return nil
}

func (m *machine) Release(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, "release")
	m.down, m.mask = nil, 0
	return nil
}

func way(down bool) string {
	if down {
		return "down"
	}
	return "up"
}

// helper is the guest's side of a machine.
type helper struct{ *machine }

var _ inject.Helper = helper{}

func (h helper) Input(_ context.Context, events []inject.Event) error {
	if h.noSess {
		return desktop.ErrNoDisplay
	}
	for _, e := range events {
		var err error
		switch e.Kind {
		case inject.EventMove:
			err = h.say(false, "helper move %v", e.At)
			h.pointer = e.At
		case inject.EventButton:
			err = h.say(true, "helper button %#x %s", e.Button, way(e.Down))
			h.press("helper button", e.Down)
		case inject.EventKey:
			err = h.say(true, "helper %s %s", keysym.Name(e.Key.Sym), way(e.Down))
			h.press("helper key", e.Down)
		case inject.EventScroll:
			err = h.say(true, "helper scroll %d,%d", e.DX, e.DY)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h helper) Pointer(context.Context) (image.Point, error) {
	if h.noSess {
		return image.Point{}, desktop.ErrNoDisplay
	}
	return h.pointer, nil
}

func (h helper) Text(_ context.Context, text string, rate int) (inject.Result, error) {
	if h.noSess {
		return inject.Result{}, desktop.ErrNoDisplay
	}
	return h.took, h.say(true, "helper text %q at %d/s", text, rate)
}

func (m *machine) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := strings.Join(m.log, "\n")
	m.log = nil
	return s
}

func injector(t *testing.T, m *machine, withHelper bool) *inject.Injector {
	t.Helper()
	cfg := inject.Config{Source: m, Input: m}
	if withHelper {
		cfg.Helper = helper{m}
	}
	in, err := inject.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
