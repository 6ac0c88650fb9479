package stream

import (
	"context"
	"fmt"
	"image"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/video"
)

// layer is one encoder with those who watch what it makes. Its goroutine, run,
// owns everything but the seats.
type layer struct {
	layerKey

	stream  *Stream
	quality quality
	kick    chan struct{} // wakes run; holds one token

	mu      sync.Mutex
	seats   map[*seat]bool // guarded by mu
	holders int            // guarded by mu; who are about to sit down
	ended   error          // guarded by mu; why nobody can any more

	enc    video.Encoder
	size   image.Point // of the screen that enc is for
	kbps   int         // of enc
	pace   pace
	latest *desktop.Frame
	shown  uint64 // Seq of the frame that was encoded last
}

func newLayer(s *Stream, k layerKey) *layer {
	q := qualities[k.level]
	return &layer{
		layerKey: k, stream: s, quality: q, kick: make(chan struct{}, 1), seats: map[*seat]bool{},
		pace: pace{interval: time.Second / time.Duration(q.fps)},
	}
}

func (l *layer) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// hold keeps the layer for somebody who is about to sit down.
func (l *layer) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders++
}

// release undoes hold.
func (l *layer) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders--
}

// sit adds a viewer that held the layer; false says that the layer has ended.
func (l *layer) sit(s *seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders--
	if l.ended != nil {
		return false
	}
	l.seats[s] = true
	l.wake()
	return true
}

func (l *layer) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seats)+l.holders == 0
}

// all lists the seats.
func (l *layer) all() []*seat {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.seats))
}

func (l *layer) leave(s *seat) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seats, s)
}

// end sends everybody away.
func (l *layer) end(err error) {
	l.mu.Lock()
	l.ended = err
	seats := l.seats
	l.seats = nil
	l.mu.Unlock()
	l.stream.mu.Lock()
	if l.stream.layers[l.layerKey] == l {
		delete(l.stream.layers, l.layerKey)
	}
	l.stream.mu.Unlock()
	for s := range seats {
		s.v.end(err)
	}
	if l.enc != nil {
		l.enc.Close()
		l.enc = nil
	}
}

// run encodes until nobody has watched for a while, or ctx ends.
func (l *layer) run(ctx context.Context) {
	log := l.stream.cfg.Logger.With("codec", l.codec, "level", l.level)
	log.Debug("encoding begins")
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{source: l.stream.cfg.Source, kick: l.kick}
	var following sync.WaitGroup
	following.Go(func() { f.run(ctx) })
	err := l.serve(ctx, f)
	cancel()
	following.Wait()
	l.end(err)
	log.Debug("encoding ended", "reason", err)
}

// serve answers why it ended.
func (l *layer) serve(ctx context.Context, f *follower) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var alone time.Time // since when nobody watches
	for {
		now := time.Now()
		if fr := f.take(); fr != nil {
			l.latest, l.pace.any, l.pace.fresh = fr, true, true
		}
		key, watched := l.wanted(now)
		wait := l.stream.cfg.Linger
		switch {
		case watched:
			alone = time.Time{}
			var s step
			if s, wait = l.pace.next(now, key); s != stepWait {
				if err := l.encode(s, now); err != nil {
					return fmt.Errorf("watch: %w", err)
				}
				continue
			}
		case alone.IsZero():
			alone = now
		default:
			if wait -= now.Sub(alone); wait <= 0 && l.stream.forget(l) {
				return errStopped()
			}
		}
		timer.Reset(max(wait, time.Millisecond))
		select {
		case <-ctx.Done():
			return errStopped()
		case <-l.kick:
		case <-timer.C:
		}
	}
}

// wanted is when the first of the viewers wants a key; zero: none does.
func (l *layer) wanted(now time.Time) (key time.Time, watched bool) {
	for _, s := range l.all() {
		at, ok := s.wants(now, l.pace.keyed)
		if !ok {
			l.leave(s)
			continue
		}
		watched = true
		if !at.IsZero() && (key.IsZero() || at.Before(key)) {
			key = at
		}
	}
	return key, watched
}

// bitrate is what the slowest way of the viewers carries, within the level's
// bounds.
func (l *layer) bitrate() int {
	kbps := l.quality.ceiling
	for _, s := range l.all() {
		s.v.mu.Lock()
		if s.v.kbps > 0 {
			kbps = min(kbps, s.v.kbps)
		}
		s.v.mu.Unlock()
	}
	return max(kbps, l.quality.floor)
}

// prepare makes an encoder for the newest frame's size, and tells it the bitrate.
func (l *layer) prepare() error {
	size, kbps := l.latest.Image.Rect.Size(), l.bitrate()
	if l.enc != nil && l.size == size {
		if off := kbps - l.kbps; off*20 < l.kbps && -off*20 < l.kbps {
			return nil // 5 % make no difference
		}
		l.kbps = kbps
		return l.enc.SetBitrate(kbps)
	}
	if l.enc != nil {
		l.enc.Close()
		l.enc = nil
	}
	enc, err := l.stream.cfg.NewEncoder(video.Config{
		Codec: l.codec, Size: size, Shrink: min(l.quality.shrink, size.X, size.Y), Bitrate: kbps, Threads: l.stream.cfg.Threads,
	})
	if err != nil {
		return err
	}
	l.enc, l.size, l.kbps, l.shown = enc, size, kbps, 0
	return nil
}

// encode takes a step and hands its picture to everybody.
func (l *layer) encode(s step, now time.Time) error {
	if err := l.prepare(); err != nil {
		return err
	}
	p := video.Picture{
		Image: l.latest.Image, Key: s == stepKey, Changed: l.changed(),
		Elapsed: int(min(now.Sub(l.pace.encoded), aliveGap).Milliseconds()),
	}
	if s == stepRefine {
		p.Refine = l.pace.refine(l.kbps)
	}
	l.shown = l.latest.Seq
	chunk, err := l.enc.Encode(p)
	if err != nil {
		return err
	}
	if chunk.Key {
		s = stepKey // as the first picture of an encoder is
	}
	l.pace.done(s, now, l.size, p.Changed)
	f := Frame{Chunk: chunk, Level: l.level, At: now, Took: time.Since(now), Screen: l.latest.Seq}
	for _, seat := range l.all() {
		if !seat.push(f) {
			l.leave(seat)
		}
	}
	return nil
}

// changed is what differs between the frame encoded last and the newest.
func (l *layer) changed() []image.Rectangle {
	if l.shown == l.latest.Seq {
		return nil
	}
	whole := []image.Rectangle{l.latest.Image.Rect}
	d, ok := l.stream.cfg.Source.(desktop.Damager)
	if !ok || l.shown == 0 {
		return whole
	}
	rects, _, known := d.Damage(l.shown)
	if !known {
		return whole
	}
	return rects
}
