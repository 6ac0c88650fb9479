//go:build cgo

package recording_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/at-wat/ebml-go"
	format "github.com/at-wat/ebml-go/webm"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/recording"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

const project, desktopID = "p", "d1"

var who = control.Holder{Name: "ann", By: "token:t1", Kind: api.ControlPerson}

// world is a desktop that can be recorded, in a bubble.
type world struct {
	*recording.Desk

	t      *testing.T
	screen *videotest.Source
	log    *event.Log
	ctx    context.Context
	stop   context.CancelFunc // of the host
	gone   context.CancelFunc // of the screen
	run    sync.WaitGroup
	config recording.Config

	mu      sync.Mutex
	audits  []string // guarded by mu
	free    int64    // guarded by mu
	deleted bool     // guarded by mu
}

func inWorld(t *testing.T, limits recording.Limits, test func(t *testing.T, w *world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, screen: videotest.NewSource(videotest.Screen(160, 96, 1)), log: event.New(64, 1, time.Now), free: 1 << 40}
		show, err := stream.New(stream.Config{Source: w.screen})
		if err != nil {
			t.Fatal(err)
		}
		var shown context.Context
		shown, w.gone = context.WithCancel(context.Background())
		w.run.Go(func() { _ = show.Run(shown) })
		l := &live.Desktop{Display: live.Display{Stream: show}}
		find := func(_ context.Context, p, ref string) (api.Desktop, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if p != project || (ref != desktopID && ref != "one") || w.deleted {
				return api.Desktop{}, api.Errorf(api.CodeNotFound, "no desktop %q", ref)
			}
			return api.Desktop{ID: desktopID, Name: "one", Project: project, Incarnation: "i1"}, nil
		}
		w.config = recording.Config{
			Dir: filepath.Join(dir, "recordings"), Limits: limits, Find: find, Log: w, Publish: w.log.Publish,
			Use: func(ctx context.Context, p, ref string) (*live.Desktop, api.Desktop, error) {
				v, err := find(ctx, p, ref)
				return l, v, err
			},
			Follow: func(id string) recording.Events { return w.log.Subscribe(event.Filter{Desktop: id}, w.log.Last()) },
			Go: func(fn func(context.Context)) bool {
				if w.ctx.Err() != nil {
					return false
				}
				w.run.Go(func() { fn(w.ctx) })
				return true
			},
			Free: func() (int64, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.free, nil
			},
			Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		}
		w.open()
		test(t, w)
		w.stop()
		w.gone()
		w.run.Wait()
	})
}

// open starts the host's part.
func (w *world) open() {
	w.t.Helper()
	d, err := recording.Open(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Desk = d
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.run.Go(func() { d.Run(w.ctx) })
}

// AddAudit implements recording.Log.
func (w *world) AddAudit(_ context.Context, a store.Audit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.audits = append(w.audits, strings.TrimSpace(a.What+" "+a.Who))
	return nil
}

func (w *world) setFree(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = n
}

func (w *world) start() api.Recording {
	w.t.Helper()
	r, err := w.Start(w.t.Context(), project, "one", who)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) end() api.Recording {
	w.t.Helper()
	r, err := w.Stop(w.t.Context(), project, desktopID)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) list() []api.Recording {
	w.t.Helper()
	list, err := w.List(w.t.Context(), project, desktopID)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// act is an agent that does something.
func (w *world) act(kinds ...string) {
	var list []api.Action
	for _, k := range kinds {
		list = append(list, api.Action{Kind: k, Text: "secret"})
	}
	w.log.Publish(project, event.TypeInputBegun, desktopID, map[string]any{"holder": "bot", "actions": list})
	w.screen.Draw(func(img *image.RGBA) image.Rectangle {
		r := image.Rect(10, 10, 60, 60)
		videotest.Fill(img, r, color.RGBA{byte(w.log.Last() * 40), 100, 100, 255})
		return r
	})
}

// wait is some time in which nothing is done.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// film is what a recording's file says.
type film struct {
	Header  format.EBMLHeader `ebml:"EBML"`
	Segment struct {
		Info     format.Info      `ebml:"Info"`
		Tracks   format.Tracks    `ebml:"Tracks"`
		Cluster  []format.Cluster `ebml:"Cluster"`
		Cues     *format.Cues     `ebml:"Cues"`
		Chapters struct {
			EditionEntry struct {
				ChapterAtom []struct {
					ChapterTimeStart uint64 `ebml:"ChapterTimeStart"`
				} `ebml:"ChapterAtom"`
			} `ebml:"EditionEntry"`
		} `ebml:"Chapters"`
	} `ebml:"Segment"`
}

// watch reads a recording and decodes it; it answers the last picture and when keys are.
func (w *world) watch(id string) (film, *image.RGBA, []time.Duration) {
	w.t.Helper()
	file, r, err := w.Read(w.t.Context(), project, desktopID, id)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		w.t.Fatal(err)
	}
	var f film
	if err := ebml.Unmarshal(bytes.NewReader(data), &f, ebml.WithIgnoreUnknown(true)); err != nil && !errors.Is(err, io.EOF) {
		w.t.Fatal(err)
	}
	dec := videotest.NewDecoder(w.t, video.Codec(r.Codec))
	var img *image.RGBA
	var keys []time.Duration
	for _, c := range f.Segment.Cluster {
		for _, b := range c.SimpleBlock {
			if b.Keyframe {
				keys = append(keys, time.Duration(c.Timecode+uint64(b.Timecode))*time.Millisecond)
			}
			if img, err = dec.Decode(b.Data[0], r.Width, r.Height); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	return f, img, keys
}

// like fails the test unless a picture is what the screen shows.
func (w *world) like(img *image.RGBA) {
	w.t.Helper()
	if q := videotest.PSNR(img, w.screen.Image()); q < 28 {
		w.t.Errorf("the last picture is unlike the screen: %.1f dB", q)
	}
}

func near(a, b time.Duration) bool { return (a - b).Abs() <= 600*time.Millisecond }

func titles(r api.Recording) string {
	var list []string
	for _, c := range r.Chapters {
		list = append(list, c.Title)
	}
	return strings.Join(list, " | ")
}

// TestRecord: a still screen and some actions, with a key at each chapter and every
// ten seconds, cues to all of them, and one line in the audit log for each end.
func TestRecord(t *testing.T) {
	inWorld(t, recording.Limits{}, func(t *testing.T, w *world) {
		begun := w.start()
		if begun.State != api.RecordingRuns || begun.Width != 160 || begun.Codec != "vp9" || begun.By != "ann" {
			t.Errorf("%+v", begun)
		}
		if _, err := w.Start(t.Context(), project, "one", who); !errors.Is(err, &api.Error{Code: api.CodeConflict}) {
			t.Errorf("begun twice: %v", err)
		}
		if err := w.Remove(t.Context(), project, "one", begun.ID, who); !errors.Is(err, &api.Error{Code: api.CodePrecondition}) {
			t.Errorf("removed while it runs: %v", err)
		}
		wait(4 * time.Second)
		w.act("click", "type")
		wait(time.Second)
		w.act("click")
		wait(3 * time.Second)
		w.log.Publish(project, event.TypeControlTaken, desktopID, map[string]any{"holder": "bob"})
		w.log.Publish(project, event.TypeInputBegun, "d2", map[string]any{"actions": []api.Action{{Kind: "drag"}}})
		wait(22 * time.Second)
		if list := w.list(); len(list) != 1 || list[0].State != api.RecordingRuns || list[0].DurationMS < 29000 {
			t.Errorf("while it runs: %+v", list)
		}
		early, _, _ := w.watch(begun.ID)
		if n := len(early.Segment.Cluster); n < 5 {
			t.Errorf("%d clusters can be seen while it runs", n)
		}
		got := w.end()
		if got.State != api.RecordingFinished || got.Reason != "stopped" || got.DurationMS < 29500 || got.DurationMS > 31000 || got.Ended.IsZero() {
			t.Errorf("%+v", got)
		}
		if s := titles(got); s != "start | click ×2, type | control: bob" || got.Chapters[1].AtMS != 4000 || got.Chapters[2].AtMS != 8000 {
			t.Errorf("chapters %v", got.Chapters)
		}
		f, img, keys := w.watch(got.ID)
		w.like(img)
		want := []time.Duration{0, 4 * time.Second, 8 * time.Second, 18 * time.Second, 28 * time.Second}
		if len(keys) != len(want) || len(f.Segment.Cues.CuePoint) != len(want) || len(f.Segment.Chapters.EditionEntry.ChapterAtom) != 3 {
			t.Fatalf("keys at %v, %d cues", keys, len(f.Segment.Cues.CuePoint))
		}
		for i, at := range want {
			if !near(keys[i], at) || f.Segment.Cues.CuePoint[i].CueTime != uint64(keys[i].Milliseconds()) {
				t.Errorf("key %d is at %s, want about %s", i, keys[i], at)
			}
		}
		if d := f.Segment.Info.Duration; d != float64(got.DurationMS) {
			t.Errorf("duration %v, want %d", d, got.DurationMS)
		}
		if _, err := w.Stop(t.Context(), project, "one"); !errors.Is(err, &api.Error{Code: api.CodePrecondition}) {
			t.Errorf("stopped twice: %v", err)
		}
		w.deleted = true
		if list := w.list(); len(list) != 1 {
			t.Errorf("of a desktop that is gone: %+v", list)
		}
		if err := w.Remove(t.Context(), project, desktopID, got.ID, who); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(w.config.Dir); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
		if s := strings.Join(w.audits, ", "); s != "recording.started ann, recording.ended ann, recording.removed ann" {
			t.Error(s)
		}
	})
}

// TestEnds: what ends a recording, and that its file is whole then.
func TestEnds(t *testing.T) {
	for _, tc := range []struct {
		reason string
		do     func(w *world)
	}{
		{"gone", func(w *world) { w.gone() }},
		{"disk_full", func(w *world) { w.setFree(1 << 20); w.act("click") }},
		{"host_stopped", func(w *world) { w.stop() }},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			inWorld(t, recording.Limits{}, func(t *testing.T, w *world) {
				r := w.start()
				events := w.config.Follow(desktopID)
				wait(3 * time.Second)
				tc.do(w)
				wait(2 * time.Second)
				got := w.list()[0]
				if got.State != api.RecordingFinished || got.Reason != tc.reason {
					t.Errorf("%+v", got)
				}
				f, img, _ := w.watch(r.ID)
				if f.Segment.Info.Duration < 2000 {
					t.Errorf("%v ms", f.Segment.Info.Duration)
				}
				if tc.reason != "disk_full" {
					w.like(img)
				}
				for {
					e, err := events.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if e.Type == event.TypeRecordingEnded {
						if e.Data["reason"] != tc.reason {
							t.Errorf("%+v", e)
						}
						break
					}
				}
				if tc.reason == "disk_full" {
					if _, err := w.Start(t.Context(), project, "one", who); !errors.Is(err, &api.Error{Code: api.CodeNoSpace}) {
						t.Errorf("begun on a full disk: %v", err)
					}
				}
			})
		})
	}
}

// TestSize: another size of the screen is another file, which follows the first.
func TestSize(t *testing.T) {
	inWorld(t, recording.Limits{}, func(t *testing.T, w *world) {
		first := w.start()
		wait(3 * time.Second)
		w.screen.Resize(videotest.Screen(200, 120, 2))
		wait(3 * time.Second)
		last := w.end()
		list := w.list()
		if len(list) != 2 || list[0].ID != last.ID || last.Follows != first.ID || last.Width != 200 || list[1].Reason != "size" || list[1].Width != 160 {
			t.Fatalf("%+v", list)
		}
		_, img, _ := w.watch(last.ID)
		w.like(img)
		if f, _, _ := w.watch(first.ID); f.Segment.Cues == nil {
			t.Error("the first file is not finished")
		}
	})
}

// TestKeep: what is old goes, and the oldest of what is too much; what runs stays.
func TestKeep(t *testing.T) {
	inWorld(t, recording.Limits{Bytes: 40_000, Age: time.Hour}, func(t *testing.T, w *world) {
		w.start()
		for range 150 { // every part has at most 10 kB
			w.act("click")
			wait(3 * time.Second)
		}
		list, total := w.list(), int64(0)
		for _, r := range list {
			total += r.Bytes
		}
		if len(list) < 3 || total > 55_000 || list[0].State != api.RecordingRuns || list[1].Reason != "long" || list[0].Follows != list[1].ID {
			t.Errorf("%d bytes in %d parts: %+v", total, len(list), list)
		}
		w.end()
		wait(2 * time.Hour)
		if list := w.list(); len(list) > 0 {
			t.Errorf("after their time: %+v", list)
		}
	})
}

// TestCrash: what a host that died has recorded is finished by the next one.
func TestCrash(t *testing.T) {
	inWorld(t, recording.Limits{}, func(t *testing.T, w *world) {
		r := w.start()
		wait(4 * time.Second)
		w.act("drag")
		wait(3 * time.Second)
		// As the disk is now, half a picture more.
		other := t.TempDir()
		if err := os.CopyFS(other, os.DirFS(w.config.Dir)); err != nil {
			t.Fatal(err)
		}
		w.end()
		f, err := os.OpenFile(filepath.Join(other, r.ID+".webm"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte{0xA3, 0x48, 0x00, 0x81, 1}); err != nil {
			t.Fatal(err)
		}
		f.Close()
		w.stop()
		w.config.Dir = other
		w.open()
		list := w.list()
		if len(list) != 1 || list[0].State != api.RecordingFinished || list[0].Reason != "host_died" || list[0].DurationMS < 6000 || titles(list[0]) != "start | drag" {
			t.Fatalf("%+v", list)
		}
		film, img, keys := w.watch(r.ID)
		w.like(img)
		if len(film.Segment.Cues.CuePoint) != len(keys) || len(film.Segment.Chapters.EditionEntry.ChapterAtom) != 2 {
			t.Errorf("%d keys, %d cues", len(keys), len(film.Segment.Cues.CuePoint))
		}
		entries, err := os.ReadDir(other)
		if err != nil || len(entries) != 2 {
			t.Errorf("files: %v, %v", entries, err)
		}
	})
}
