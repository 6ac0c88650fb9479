package hosttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os/user"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/shelf"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	pkgimage "github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/vm"
)

// DrawnWindows answers the windows of a desktop that is drawn: an override for a
// guest in process.
func DrawnWindows(_ context.Context, m guest.HelperMessage) *guest.HelperMessage {
	if m.Op != guest.OpWindows {
		return nil
	}
	list, err := json.Marshal(guest.WindowList{Windows: []guest.Window{
		{ID: 1, Type: "desktop", Class: "Xfdesktop", Title: "Desktop", Width: 1280, Height: 800},
		{ID: 2, Type: "dock", Class: "Xfce4-panel", Width: 1280, Height: 26},
		{ID: 3, Type: "normal", Class: "Xterm", Title: "xterm", X: 10, Y: 40, Width: 400, Height: 300},
	}})
	if err != nil {
		return &guest.HelperMessage{ID: m.ID, Error: guest.ErrorFrom(err)}
	}
	return &guest.HelperMessage{ID: m.ID, Result: list}
}

// Screen is a screen of one colour. Safe for concurrent use.
type Screen struct {
	mu      sync.Mutex
	seq     uint64
	fill    color.RGBA
	blank   bool
	changed chan struct{}
}

var (
	_ live.Screen  = (*Screen)(nil)
	_ live.Input   = (*Input)(nil)
	_ shelf.Images = (*Images)(nil)
)

// NewScreen makes a drawn, still screen.
func NewScreen() *Screen {
	return &Screen{seq: 1, fill: color.RGBA{R: 40, G: 80, B: 120, A: 255}, changed: make(chan struct{})}
}

// Fill paints it, which is a change.
func (s *Screen) Fill(c color.RGBA) { s.change(func() { s.fill, s.blank = c, false }) }

// Blank makes it blank.
func (s *Screen) Blank() { s.change(func() { s.blank = true }) }

func (s *Screen) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	s.seq++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Shot implements live.Screen.
func (s *Screen) Shot(_ context.Context, shot live.Shot) (live.Picture, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := image.Pt(1280, 800)
	if r := shot.Region; r != nil {
		size = image.Pt(r.Width, r.Height)
	}
	scale := 1.0
	if w := shot.MaxWidth; w > 0 && w < size.X {
		scale = float64(w) / float64(size.X)
		size = image.Pt(w, int(float64(size.Y)*scale))
	}
	pic := live.Picture{
		Picture: api.Picture{MIME: "image/png", Width: size.X, Height: size.Y, Scale: scale, Seq: s.seq},
		ETag:    fmt.Sprintf(`"%d-%d-%d-%t"`, s.seq, size.X, size.Y, shot.JPEG),
	}
	if shot.Unless == pic.ETag {
		pic.Unchanged = true
		return pic, nil
	}
	// One bit a pixel: tests take many pictures, and pixels are dear under the race detector.
	img := image.NewPaletted(image.Rectangle{Max: size}, color.Palette{color.RGBA{s.fill.R, s.fill.G, s.fill.B, 255}})
	var b bytes.Buffer
	var err error
	if shot.JPEG {
		pic.MIME = "image/jpeg"
		err = jpeg.Encode(&b, img, nil)
	} else {
		err = png.Encode(&b, img)
	}
	pic.Data = b.Bytes()
	return pic, err
}

// Wait implements live.Screen. Still is still at once.
func (s *Screen) Wait(ctx context.Context, w live.Waiting) (uint64, error) {
	s.mu.Lock()
	after := w.After
	if after == 0 {
		after = s.seq
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		seq, blank, changed := s.seq, s.blank, s.changed
		s.mu.Unlock()
		if w.For == "still" || w.For == "plain" && blank || (w.For == "notblank" || w.For == "notplain") && !blank || (w.For == "change" && seq > after) {
			return seq, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return seq, ctx.Err()
		}
	}
}

// Input remembers what was played.
type Input struct {
	mu      sync.Mutex
	batches []api.InputBatch
}

// Do implements live.Input. An action of kind "release" fails.
func (i *Input) Do(_ context.Context, b api.InputBatch) (api.InputReply, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.batches = append(i.batches, b)
	reply := api.InputReply{Width: 1280, Height: 800, Seq: 1}
	for _, a := range b.Actions {
		if a.Kind == "release" {
			reply.Error = api.Errorf(api.CodeInvalid, "nothing is held")
			break
		}
		reply.Results = append(reply.Results, api.ActionResult{Kind: a.Kind, Effect: api.EffectConfirmed, How: "rfb"})
	}
	return reply, nil
}

// Release implements live.Input.
func (*Input) Release(context.Context) error { return nil }

// Batches returns what was played.
func (i *Input) Batches() []api.InputBatch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.batches)
}

// Images holds one image.
type Images struct {
	// Display is the image's; zero: 1280×800. It is set before the host starts.
	Display api.Display

	mu      sync.Mutex
	removed bool
}

// Digest is that of the one image.
const Digest = "sha256:00000000000000000000000000000000000000000000000000000000000000aa"

// Resolve implements shelf.Images.
func (i *Images) Resolve(_ context.Context, ref string) (shelf.Image, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.removed || (ref != "test" && ref != "test:latest" && ref != Digest) {
		return shelf.Image{}, &pkgimage.NotFoundError{Ref: ref, Known: []string{"test:latest"}}
	}
	me, err := user.Current()
	if err != nil {
		return shelf.Image{}, err
	}
	return shelf.Image{
		User:    me.Username,
		Image:   api.Image{Digest: Digest, Name: "test", Tags: []string{"test:latest"}, OS: "linux", Virtual: 4 << 30},
		Boot:    vm.Boot{Kernel: "/images/vmlinuz", Cmdline: "quiet"},
		System:  vm.Disk{Base: "/images/system.img", BaseFormat: "raw"},
		Display: cmp.Or(i.Display, api.Display{Width: 1280, Height: 800}),
		Park:    guest.Park{Argv: []string{"browser"}, Class: "Browser"},
	}, nil
}

// List implements shelf.Images.
func (i *Images) List(ctx context.Context) ([]api.Image, error) {
	img, err := i.Resolve(ctx, "test")
	if err != nil {
		return []api.Image{}, nil //nolint:nilerr // it was removed
	}
	return []api.Image{img.Image}, nil
}

// Remove implements shelf.Images.
func (i *Images) Remove(ctx context.Context, ref string, inUse func(string) string) error {
	if _, err := i.Resolve(ctx, ref); err != nil {
		return err
	}
	if by := inUse(Digest); by != "" {
		return &pkgimage.InUseError{Image: Digest, By: by}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.removed = true
	return nil
}
