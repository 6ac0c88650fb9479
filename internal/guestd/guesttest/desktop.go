package guesttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Desktop is a fake helper: a screen of one colour, a pointer, a clipboard and
// windows that do as they are told.
type Desktop struct {
	mu       sync.Mutex
	screen   guest.Screen
	fill     color.RGBA
	keyboard guest.Keyboard
	pointer  guest.Point
	clips    map[string][]byte
	windows  []guest.Window
	events   []guest.InputEvent
	patience time.Duration
	launched []guest.Launch
	parked   []guest.Park
	page     bool              // a browser has one open
	conn     *guest.HelperConn // of the running helper; nil before the first one
	down     chan struct{}     // closed while the display is away
	current  func()            // ends the running helper
	override func(context.Context, guest.HelperMessage) *guest.HelperMessage
}

// NewDesktop returns a blue screen of 1280x800 with one window.
func NewDesktop() *Desktop {
	up := make(chan struct{})
	close(up)
	return &Desktop{
		screen: guest.Screen{Width: 1280, Height: 800, Scale: 1}, fill: color.RGBA{B: 200, A: 255},
		clips: map[string][]byte{}, down: up,
		windows: []guest.Window{{ID: 1, Title: "Terminal", Class: "xterm", PID: 100, Width: 640, Height: 400, Type: "normal", Active: true}},
	}
}

// Fill paints the screen.
func (d *Desktop) Fill(c color.RGBA) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fill = c
}

// Patience is how long the last text that was typed might take.
func (d *Desktop) Patience() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.patience
}

// Events returns the input that was played so far.
func (d *Desktop) Events() []guest.InputEvent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// Launched returns what was launched so far.
func (d *Desktop) Launched() []guest.Launch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.launched)
}

// Parked returns what was parked so far.
func (d *Desktop) Parked() []guest.Park {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.parked)
}

// Browse opens a page in a browser (true), or closes the last one. A page stays
// open while the display is away.
func (d *Desktop) Browse(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.page = open
	if d.conn != nil {
		d.tell()
	}
}

// tell says whether a page is open. d.mu is held.
func (d *Desktop) tell() {
	now, err := json.Marshal(guest.Browsing{Open: d.page})
	if err == nil {
		_ = d.conn.Write(guest.HelperMessage{Op: guest.OpBrowsing, Result: now}) // one that is being ended cannot
	}
}

// Override answers requests itself where fn returns a message; nil leaves them
// to the fake.
func (d *Desktop) Override(fn func(context.Context, guest.HelperMessage) *guest.HelperMessage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.override = fn
}

// SetUp takes the display away (false), which ends the helper, or brings it
// back.
func (d *Desktop) SetUp(up bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.down: // it is up
		if !up {
			d.down = make(chan struct{})
			if d.current != nil {
				d.current()
			}
		}
	default:
		if up {
			close(d.down)
		}
	}
}

type pipeEnd struct{ *io.PipeWriter }

// spawn starts the fake in goroutines instead of a process.
func (d *Desktop) spawn(ctx context.Context) (*display.Process, error) {
	d.mu.Lock()
	up := d.down
	d.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	toHelper, in := io.Pipe()
	out, fromHelper := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	kill := func() {
		cancel()
		_ = errors.Join(toHelper.Close(), fromHelper.Close()) // never fails
	}
	d.mu.Lock()
	d.current = kill
	d.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() {
		d.serve(ctx, guest.NewHelperConn(toHelper, fromHelper))
		kill()
	})
	return &display.Process{Out: out, In: pipeEnd{in}, Kill: kill, Wait: func() error { running.Wait(); return nil }}, nil
}

func (d *Desktop) serve(ctx context.Context, conn *guest.HelperConn) {
	hello, err := json.Marshal(guest.HelperHello{Protocol: guest.HelperProtocol, Display: ":0", PID: 1})
	if err != nil || conn.Write(guest.HelperMessage{Result: hello}) != nil {
		return
	}
	d.mu.Lock()
	if d.conn = conn; d.page {
		d.tell()
	}
	d.mu.Unlock()
	var answering sync.WaitGroup
	defer answering.Wait()
	for {
		m, err := conn.Read()
		if err != nil {
			return
		}
		if m.Op == guest.OpCancel {
			continue
		}
		answering.Go(func() {
			res := d.answer(ctx, m)
			res.ID = m.ID
			_ = conn.Write(res) // a helper that is being ended cannot answer
		})
	}
}

func (d *Desktop) answer(ctx context.Context, m guest.HelperMessage) guest.HelperMessage {
	d.mu.Lock()
	override := d.override
	d.mu.Unlock()
	if override != nil {
		if res := override(ctx, m); res != nil {
			return *res
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	result, data, err := d.do(m)
	if err != nil {
		return guest.HelperMessage{Error: guest.ErrorFrom(err)}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return guest.HelperMessage{Error: guest.ErrorFrom(err)}
	}
	return guest.HelperMessage{Result: raw, Binary: data}
}

func params[T any](m guest.HelperMessage) (v T, err error) {
	if len(m.Params) == 0 {
		return v, nil
	}
	return v, json.Unmarshal(m.Params, &v)
}

func (d *Desktop) do(m guest.HelperMessage) (result any, data []byte, err error) {
	switch m.Op {
	case guest.OpReady, guest.OpScreen:
		return d.screen, nil, nil
	case guest.OpSetScreen:
		s, err := params[guest.Screen](m)
		d.screen.Width, d.screen.Height = s.Width, s.Height
		return d.screen, nil, err
	case guest.OpScreenshot:
		return d.picture(m)
	case guest.OpSetKeyboard:
		d.keyboard, err = params[guest.Keyboard](m)
		return nil, nil, err
	case guest.OpPointer:
		return d.pointer, nil, nil
	case guest.OpInput:
		return d.input(m)
	case guest.OpWindows:
		return guest.WindowList{Windows: d.windows}, nil, nil
	case guest.OpWindow:
		done, err := d.window(m)
		return done, nil, err
	case guest.OpLaunch:
		l, err := params[guest.Launch](m)
		d.launched = append(d.launched, l)
		return guest.Launched{PID: 1000 + len(d.launched)}, nil, err
	case guest.OpPark:
		what, err := params[guest.Park](m)
		d.parked = append(d.parked, what)
		return guest.Parked{PID: 2000, Window: 1 << 20}, nil, err
	}
	return d.clipboard(m)
}

func (d *Desktop) clipboard(m guest.HelperMessage) (result any, data []byte, err error) {
	p, err := params[guest.Clipboard](m)
	switch {
	case err != nil:
	case m.Op == guest.OpClipboardTypes:
		return guest.ClipboardTargets{Types: slices.Sorted(maps.Keys(d.clips))}, nil, nil
	case m.Op == guest.OpClipboardSet:
		d.clips = map[string][]byte{p.Type: m.Binary}
	case m.Op == guest.OpClipboardGet && d.clips[p.Type] != nil:
		return guest.Clipboard{Type: p.Type}, d.clips[p.Type], nil
	case m.Op == guest.OpClipboardGet:
		err = &guest.Error{Code: guest.CodeNotFound, Message: "the clipboard has no " + p.Type}
	default:
		err = &guest.Error{Code: guest.CodeUnsupported, Message: m.Op + " is not known"}
	}
	return nil, nil, err
}

func (d *Desktop) picture(m guest.HelperMessage) (any, []byte, error) {
	p, err := params[guest.ScreenshotParams](m)
	if err != nil {
		return nil, nil, err
	}
	img := image.NewRGBA(image.Rect(0, 0, d.screen.Width, d.screen.Height))
	draw.Draw(img, img.Bounds(), image.NewUniform(d.fill), image.Point{}, draw.Src)
	shot := guest.Screenshot{Format: guest.FormatRGBA, Width: d.screen.Width, Height: d.screen.Height}
	if p.Format == guest.FormatRGBA {
		return shot, img.Pix, nil
	}
	shot.Format = guest.FormatPNG
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
	return shot, b.Bytes(), err
}

func (d *Desktop) input(m guest.HelperMessage) (any, []byte, error) {
	b, err := params[guest.InputBatch](m)
	res := guest.InputResult{Done: len(b.Events)}
	for _, ev := range b.Events {
		d.events = append(d.events, ev)
		if ev.Kind == "text" {
			d.patience = m.Timeout
		}
		res.Effects = append(res.Effects, guest.InputEffect{Effect: guest.EffectConfirmed})
		if ev.Kind == "move" {
			d.pointer = guest.Point{X: ev.X, Y: ev.Y}
		}
	}
	res.Pointer = d.pointer
	return res, nil, err
}

func (d *Desktop) window(m guest.HelperMessage) (done guest.WindowDone, err error) {
	done.Effect = guest.EffectConfirmed
	op, err := params[guest.WindowOp](m)
	if err != nil {
		return done, err
	}
	i := slices.IndexFunc(d.windows, func(w guest.Window) bool { return w.ID == op.ID })
	if i < 0 {
		return done, &guest.Error{Code: guest.CodeNotFound, Message: "there is no such window"}
	}
	if op.Op == "close" {
		d.windows = slices.Delete(d.windows, i, i+1)
		return done, nil
	}
	w := &d.windows[i]
	switch op.Op {
	case "move":
		w.X, w.Y = op.X, op.Y
	case "resize":
		w.Width, w.Height = op.Width, op.Height
	case "maximize":
		w.Maximized = true
	case "minimize":
		w.Minimized = true
	case "restore":
		w.Maximized, w.Minimized = false, false
	}
	now := *w
	done.Window = &now
	return done, nil
}
