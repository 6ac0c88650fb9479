package stream_test

import (
	"context"
	"errors"
	"image"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// screen is a source that a test draws on.
type screen struct {
	mu     sync.Mutex
	img    *image.RGBA
	seq    uint64
	damage map[uint64][]image.Rectangle
	cursor desktop.Cursor
	away   error
	notify chan struct{}
}

func newScreen(w, h int) *screen {
	return &screen{img: image.NewRGBA(image.Rect(0, 0, w, h)), seq: 1, damage: map[uint64][]image.Rectangle{}, notify: make(chan struct{})}
}

// change says that a rectangle has changed; nobody looks at its pixels.
func (s *screen) change(r image.Rectangle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish(s.img, r)
}

func (s *screen) resize(w, h int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	s.publish(img, img.Rect)
}

func (s *screen) publish(img *image.RGBA, r image.Rectangle) {
	s.img = img
	s.seq++
	s.damage[s.seq] = []image.Rectangle{r}
	close(s.notify)
	s.notify = make(chan struct{})
}

func (s *screen) Frame(context.Context) (*desktop.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &desktop.Frame{Image: s.img, Seq: s.seq, At: time.Now(), Cursor: s.cursor}, s.away
}

func (s *screen) Next(ctx context.Context, after uint64) (*desktop.Frame, error) {
	for {
		s.mu.Lock()
		f, err, notify := &desktop.Frame{Image: s.img, Seq: s.seq, At: time.Now()}, s.away, s.notify
		s.mu.Unlock()
		if err != nil || f.Seq > after {
			return f, err
		}
		select {
		case <-notify:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *screen) Damage(since uint64) (rects []image.Rectangle, seq uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := since + 1; i <= s.seq; i++ {
		rects = append(rects, s.damage[i]...)
	}
	return rects, s.seq, true
}

// encoders makes encoders that note what they are asked to do.
type encoders struct {
	mu      sync.Mutex
	made    []video.Config
	open    int
	asked   []video.Picture
	bitrate int
}

func (e *encoders) new(cfg video.Config) (video.Encoder, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made = append(e.made, cfg)
	e.open++
	e.bitrate = cfg.Bitrate
	return &encoder{all: e, cfg: cfg}, nil
}

// now is what there is: encoders that are open, and the newest bitrate.
func (e *encoders) now() (open, kbps int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open, e.bitrate
}

func (e *encoders) pictures() []video.Picture {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.asked
	e.asked = nil
	return list
}

type encoder struct {
	all   *encoders
	cfg   video.Config
	begun bool
}

func (e *encoder) Encode(p video.Picture) (video.Chunk, error) {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	p.Key = p.Key || !e.begun
	e.begun = true
	e.all.asked = append(e.all.asked, p)
	size := e.cfg.Size.Div(max(e.cfg.Shrink, 1))
	return video.Chunk{Codec: e.cfg.Codec, Data: make([]byte, 100), Key: p.Key, Width: size.X, Height: size.Y}, nil
}

func (e *encoder) SetBitrate(kbps int) error {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	e.all.bitrate = kbps
	return nil
}

func (e *encoder) Close() {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	e.all.open--
}

// world is a stream of a screen that a test draws on, in a bubble.
type world struct {
	*stream.Stream

	t       *testing.T
	screen  *screen
	enc     *encoders
	viewers []*watcher
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, screen: newScreen(320, 200), enc: &encoders{}}
		var err error
		w.Stream, err = stream.New(stream.Config{Source: w.screen, NewEncoder: w.enc.new})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		test(w)
		cancel()
		run.Wait()
		if _, err := w.Watch(t.Context(), stream.Want{Codec: video.Tiles}); !errors.Is(err, desktop.ErrDisconnect) {
			t.Errorf("watched after Run: %v", err)
		}
		for _, v := range w.viewers {
			v.read(t)
			if _, err := v.Next(t.Context()); !errors.Is(err, desktop.ErrDisconnect) {
				t.Errorf("a viewer after Run: %v", err)
			}
		}
		if open, _ := w.enc.now(); open != 0 {
			t.Errorf("%d encoders are open at the end", open)
		}
	})
}

// watch adds a viewer and reads for it, until reading ends.
func (w *world) watch(want stream.Want) *watcher {
	w.t.Helper()
	if want.Codec == "" {
		want.Codec = video.Tiles // which every build has
	}
	v, err := w.Watch(w.t.Context(), want)
	if err != nil {
		w.t.Fatal(err)
	}
	w.viewers = append(w.viewers, &watcher{Viewer: v})
	return w.viewers[len(w.viewers)-1]
}

type watcher struct {
	*stream.Viewer
}

// read takes what waits for the viewer.
func (w *watcher) read(t *testing.T) []stream.Frame {
	t.Helper()
	var list []stream.Frame
	for {
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		f, err := w.Next(ctx)
		cancel()
		if err != nil {
			return list
		}
		list = append(list, f)
	}
}

// keys counts them.
func keys(frames []stream.Frame) (n int) {
	for _, f := range frames {
		if f.Key {
			n++
		}
	}
	return n
}
