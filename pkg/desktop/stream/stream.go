package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// Level is a level of quality.
type Level int

// Levels.
const (
	High Level = iota // every pixel, 30 frames a second
	Low               // half as wide and high, 10 frames a second: for slow ways
)

// quality is what a level means.
type quality struct {
	shrink         int
	fps            int
	floor, ceiling int // of its bitrate, in kbit/s
}

var qualities = [...]quality{
	High: {shrink: 1, fps: 30, floor: 800, ceiling: 4000},
	Low:  {shrink: 2, fps: 10, floor: 100, ceiling: 500},
}

// Floor is the bitrate in kbit/s below which a way is too slow for a level.
func (l Level) Floor() int { return qualities[l].floor }

// String is the level's name.
func (l Level) String() string { return [...]string{High: "high", Low: "low"}[l] }

// Config says how a Stream works. Source is required.
type Config struct {
	Source desktop.Source
	// NewEncoder makes encoders. Default video.New.
	NewEncoder func(video.Config) (video.Encoder, error)
	// Threads of each encoder. Default 1.
	Threads int
	// Linger is how long an encoder outlives its last viewer. Default 5 s.
	Linger time.Duration
	// Logger hears of encoders that begin and end, at level debug. Default: none.
	Logger *slog.Logger
}

// Stream is the encoded pictures of one screen. Safe for concurrent use; Run must
// be running.
type Stream struct {
	cfg   Config
	begin chan *layer   // to Run
	over  chan struct{} // closed when Run has ended

	mu     sync.Mutex
	layers map[layerKey]*layer // guarded by mu
}

type layerKey struct {
	codec video.Codec
	level Level
}

// New returns a stream. It starts nothing; call Run.
func New(cfg Config) (*Stream, error) {
	if cfg.Source == nil {
		return nil, errors.New("configure stream: Source is required")
	}
	if cfg.NewEncoder == nil {
		cfg.NewEncoder = video.New
	}
	cfg.Linger = cmp.Or(cfg.Linger, 5*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Stream{cfg: cfg, begin: make(chan *layer), over: make(chan struct{}), layers: map[layerKey]*layer{}}, nil
}

// Run encodes while somebody watches. It returns nil when ctx has ended, and
// everything that it started; all viewers have ended then. It is called once.
func (s *Stream) Run(ctx context.Context) error {
	defer close(s.over)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-s.begin:
			all.Go(func() { l.run(ctx) })
		}
	}
}

// Want says what a viewer is to see.
type Want struct {
	Codec video.Codec // default VP9
	Level Level
	// Recording asks for a key every 10 s.
	Recording bool
	// Reliable says that every picture that Next returned arrives.
	Reliable bool
}

// Watch adds a viewer. Its first picture is a key. It waits for Run to begin.
func (s *Stream) Watch(ctx context.Context, w Want) (*Viewer, error) {
	w.Codec = cmp.Or(w.Codec, video.VP9)
	if !slices.Contains(video.Codecs(), w.Codec) {
		return nil, fmt.Errorf("watch as %q: %w", w.Codec, desktop.ErrUnsupported)
	}
	l, err := s.layerOf(ctx, layerKey{w.Codec, w.Level})
	if err != nil {
		return nil, err
	}
	v := &Viewer{
		stream: s, codec: w.Codec, recording: w.Recording, notify: make(chan struct{}, 1), needKey: true, arrived: w.Reliable, reliable: w.Reliable,
	}
	v.cur = &seat{v: v, l: l}
	if !l.sit(v.cur) {
		return nil, errStopped()
	}
	return v, nil
}

func errStopped() error {
	return fmt.Errorf("watch: the stream has stopped: %w", desktop.ErrDisconnect)
}

// layerOf finds a layer that runs, or begins one.
func (s *Stream) layerOf(ctx context.Context, k layerKey) (*layer, error) {
	s.mu.Lock()
	l := s.layers[k]
	if l != nil {
		l.hold()
		s.mu.Unlock()
		return l, nil
	}
	l = newLayer(s, k)
	l.hold()
	s.layers[k] = l
	s.mu.Unlock()
	var err error
	select {
	case s.begin <- l:
		return l, nil
	case <-s.over:
		err = errStopped()
	case <-ctx.Done():
		err = fmt.Errorf("watch: %w", ctx.Err())
	}
	l.end(err)
	return nil, err
}

// forget removes a layer that nobody watches; false: somebody does.
func (s *Stream) forget(l *layer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.empty() {
		return false
	}
	if s.layers[l.layerKey] == l {
		delete(s.layers, l.layerKey)
	}
	return true
}

// Cursors calls each with the cursor as it is now, and whenever it looks or stands
// otherwise, until ctx ends or each fails.
func (s *Stream) Cursors(ctx context.Context, each func(desktop.Cursor) error) error {
	tick := time.NewTicker(cursorGap)
	defer tick.Stop()
	var last desktop.Cursor
	for told := false; ; {
		// A display that is away for a while comes back.
		if f, err := s.cfg.Source.Frame(ctx); err == nil && (!told || f.Cursor != last) {
			told, last = true, f.Cursor
			if err := each(last); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("follow the cursor: %w", ctx.Err())
		}
	}
}

// cursorGap is how often somebody who watches looks where the cursor is.
const cursorGap = 100 * time.Millisecond
