package stream_test

import (
	"context"
	"errors"
	"image"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
)

func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var spot = image.Rect(100, 100, 110, 110)

// TestStill: a still screen becomes sharp, and then sends a picture a second of
// nothing.
func TestStill(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		v := w.watch(stream.Want{Reliable: true})
		wait(3 * time.Second)
		v.read(t)
		sharp, all := 0, w.enc.pictures()
		for i, p := range all {
			if i == 0 != p.Key {
				t.Errorf("picture %d: key %v", i, p.Key)
			}
			for _, r := range p.Refine {
				sharp += r.Dx() * r.Dy()
			}
		}
		if sharp != 320*200 {
			t.Errorf("%d pixels were refined, want all", sharp)
		}
		wait(10 * time.Second)
		if n := len(v.read(t)); n < 9 || n > 11 {
			t.Errorf("%d pictures in 10 s of a still screen", n)
		}
		for _, p := range w.enc.pictures() {
			if p.Key || len(p.Changed)+len(p.Refine) > 0 {
				t.Errorf("a still screen was encoded: %+v", p)
			}
		}
	})
}

// TestMotion: changes come at once, at most 30 a second, with the newest pixels,
// and nothing is refined meanwhile; what moved is afterwards, and nothing else.
func TestMotion(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		v := w.watch(stream.Want{Reliable: true})
		wait(5 * time.Second)
		v.read(t)
		w.enc.pictures()
		begun := time.Now()
		w.screen.change(spot)
		f, err := v.Next(t.Context())
		if err != nil || time.Since(begun) > time.Millisecond {
			t.Errorf("a change came after %s, %v", time.Since(begun), err)
		}
		var frames []stream.Frame
		for i := range 300 { // 3 s at 100 a second
			w.screen.change(spot.Add(image.Pt(i%60, 0)))
			wait(10 * time.Millisecond)
			if i%50 == 49 {
				frames = append(frames, v.read(t)...)
			}
		}
		if n := len(frames); n < 70 || n > 90 {
			t.Errorf("%d pictures in 3 s", n)
		}
		for _, g := range frames {
			if d := g.At.Sub(f.At); d < time.Second/30 {
				t.Errorf("two pictures within %s", d)
			}
			f = g
		}
		for _, p := range w.enc.pictures() {
			if len(p.Refine) > 0 || p.Key {
				t.Fatal("refined, or a key, while it moves")
			}
		}
		wait(2 * time.Second)
		var refined []image.Rectangle
		for _, p := range w.enc.pictures() {
			refined = append(refined, p.Refine...)
		}
		want := []image.Rectangle{image.Rect(64, 64, 128, 128), image.Rect(128, 64, 192, 128)}
		if len(refined) != 2 || refined[0] != want[0] || refined[1] != want[1] {
			t.Errorf("refined %v, want %v", refined, want)
		}
	})
}

// TestOneEncode: five viewers of a level cost one encode, another level a second,
// and none once they have left.
func TestOneEncode(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		var all []*watcher
		for range 5 {
			all = append(all, w.watch(stream.Want{Reliable: true}))
		}
		low := w.watch(stream.Want{Level: stream.Low, Reliable: true})
		wait(time.Second)
		if w.enc.mu.Lock(); len(w.enc.made) != 2 || w.enc.made[0].Shrink+w.enc.made[1].Shrink != 3 {
			t.Errorf("encoders: %+v", w.enc.made)
		}
		w.enc.mu.Unlock()
		for _, v := range append(all, low) {
			if f := v.read(t); len(f) == 0 || !f[0].Key || keys(f) != 1 {
				t.Errorf("%d pictures, %d keys", len(f), keys(f))
			}
			v.Close()
			if _, err := v.Next(t.Context()); !errors.Is(err, desktop.ErrDisconnect) {
				t.Errorf("after Close: %v", err)
			}
		}
		wait(4 * time.Second)
		if open, _ := w.enc.now(); open != 2 {
			t.Errorf("%d encoders linger, want 2", open)
		}
		wait(2 * time.Second)
		if open, _ := w.enc.now(); open != 0 {
			t.Errorf("%d encoders outlive their viewers", open)
		}
		w.watch(stream.Want{})
		wait(time.Millisecond)
		if open, _ := w.enc.now(); open != 1 {
			t.Error("nothing is encoded for a viewer who comes back")
		}
	})
}

// TestKeys: requests are coalesced, a join brings a key at once where none came
// lately, and no key comes unasked.
func TestKeys(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		a := w.watch(stream.Want{Reliable: true})
		wait(10 * time.Second)
		if n := keys(a.read(t)); n != 1 {
			t.Errorf("%d keys in 10 s", n)
		}
		b := w.watch(stream.Want{Reliable: true})
		wait(time.Millisecond)
		if f := b.read(t); len(f) != 1 || !f[0].Key {
			t.Errorf("joined a still screen: %d pictures", len(f))
		}
		a.read(t)
		for range 100 { // a storm of 2 s
			a.RequestKey()
			b.RequestKey()
			wait(20 * time.Millisecond)
		}
		if n := keys(a.read(t)); n != 4 {
			t.Errorf("%d keys in a storm of 2 s", n)
		}
		wait(10 * time.Second)
		if n := keys(a.read(t)); n > 1 {
			t.Errorf("%d keys after the storm", n)
		}
	})
}

// TestKeyRepeated: the first key comes again until it is confirmed, not for ever,
// and never after that.
func TestKeyRepeated(t *testing.T) {
	for _, tc := range []struct {
		name    string
		confirm time.Duration // 0: never
		keys    int
	}{{"at once", time.Millisecond, 1}, {"after the second", 1600 * time.Millisecond, 2}, {"never", 0, 6}} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				t := w.t
				v := w.watch(stream.Want{})
				n := 0
				if tc.confirm > 0 {
					wait(tc.confirm)
					n = keys(v.read(t))
					v.Arrived()
				}
				for range 100 {
					wait(time.Second)
					n += keys(v.read(t))
				}
				if n != tc.keys {
					t.Errorf("%d keys, want %d", n, tc.keys)
				}
			})
		})
	}
}

// TestSlowViewer: one that does not read loses its own pictures alone, and goes
// on with a key.
func TestSlowViewer(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		fast, slow := w.watch(stream.Want{Reliable: true}), w.watch(stream.Want{Reliable: true})
		n, k := 0, 0
		for i := range 300 { // 10 s of motion
			w.screen.change(spot.Add(image.Pt(i%200, 0)))
			wait(34 * time.Millisecond)
			f := fast.read(t)
			n, k = n+len(f), k+keys(f)
		}
		if n < 299 || fast.Dropped() > 0 {
			t.Errorf("the fast one got %d of 300 pictures", n)
		}
		if slow.Dropped() == 0 || k > 5 {
			t.Errorf("the slow one lost %d pictures, at the price of %d keys", slow.Dropped(), k)
		}
		wait(10 * time.Second)
		f := slow.read(t)
		for len(f) > 0 && !f[0].Key {
			f = f[1:]
		}
		if len(f) == 0 {
			t.Error("the slow one never got a key again")
		}
	})
}

// TestLevel: a viewer moves without a gap, and its way's bitrate is what the
// encoder aims at, within the level's bounds.
func TestLevel(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		v := w.watch(stream.Want{Reliable: true})
		wait(time.Second)
		v.read(t)
		for _, tc := range []struct{ way, want int }{{2000, 2000}, {10, 800}, {90000, 4000}} {
			v.SetBitrate(tc.way)
			wait(2 * time.Second)
			if _, kbps := w.enc.now(); kbps != tc.want {
				t.Errorf("a way of %d kbit/s: encoded at %d, want %d", tc.way, kbps, tc.want)
			}
		}
		if err := v.SetLevel(t.Context(), stream.Low); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		f := v.read(t)
		for len(f) > 0 && f[0].Level == stream.High {
			f = f[1:]
		}
		if len(f) == 0 || !f[0].Key || f[0].Width != 160 || v.Level() != stream.Low {
			t.Fatalf("moved to low: %+v", f)
		}
		for _, to := range []stream.Level{stream.High, stream.Low} { // there and back at once
			if err := v.SetLevel(t.Context(), to); err != nil {
				t.Fatal(err)
			}
		}
		wait(7 * time.Second)
		f = v.read(t)
		if open, _ := w.enc.now(); len(f) == 0 || f[len(f)-1].Level != stream.Low || open != 1 {
			t.Errorf("%d pictures, %d encoders", len(f), open)
		}
	})
}

// TestResize: another size of the screen is a key of that size, for the same
// viewer.
func TestResize(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		v := w.watch(stream.Want{Reliable: true})
		wait(time.Second)
		v.read(t)
		w.screen.resize(800, 600)
		wait(time.Millisecond)
		if f := v.read(t); len(f) != 1 || !f[0].Key || f[0].Width != 800 {
			t.Errorf("%+v", f)
		}
	})
}

// TestRecording: a key every 10 s and one when a chapter begins.
func TestRecording(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		v := w.watch(stream.Want{Recording: true, Reliable: true})
		wait(35 * time.Second)
		if n := keys(v.read(t)); n != 4 {
			t.Errorf("%d keys in 35 s", n)
		}
		v.RequestKey()
		wait(time.Millisecond)
		if f := v.read(t); keys(f) != 1 {
			t.Error("a chapter begins without a key")
		}
	})
}

// TestAway: a display that goes away ends nobody's watching.
func TestAway(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		v := w.watch(stream.Want{Reliable: true})
		wait(2 * time.Second)
		w.screen.mu.Lock()
		w.screen.away = desktop.ErrDisconnect
		w.screen.mu.Unlock()
		w.screen.change(spot)
		wait(5 * time.Second)
		v.read(t)
		w.enc.pictures()
		w.screen.mu.Lock()
		w.screen.away = nil
		w.screen.mu.Unlock()
		wait(time.Second)
		changed := false
		for _, p := range w.enc.pictures() {
			changed = changed || len(p.Changed) > 0
		}
		if !changed {
			t.Error("what changed meanwhile was not encoded")
		}
	})
}

// TestCursors: told at once and then when something has changed.
func TestCursors(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		ctx, cancel := context.WithCancel(t.Context())
		var told []desktop.Cursor
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.Cursors(ctx, func(c desktop.Cursor) error {
				told = append(told, c)
				return nil
			})
		}()
		wait(3 * time.Second)
		w.screen.mu.Lock()
		w.screen.cursor.Pos = image.Pt(7, 8)
		w.screen.mu.Unlock()
		wait(3 * time.Second)
		cancel()
		<-done
		if len(told) != 2 || told[1].Pos != image.Pt(7, 8) {
			t.Errorf("told %v", told)
		}
	})
}

// TestRefused: what cannot be watched.
func TestRefused(t *testing.T) {
	if _, err := stream.New(stream.Config{}); err == nil {
		t.Error("a stream of nothing")
	}
	inWorld(t, func(w *world) {
		t := w.t
		if _, err := w.Watch(t.Context(), stream.Want{Codec: "h264"}); !errors.Is(err, desktop.ErrUnsupported) {
			t.Errorf("an unknown codec: %v", err)
		}
	})
}
