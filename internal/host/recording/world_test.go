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
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/at-wat/ebml-go"
	format "github.com/at-wat/ebml-go/webm"

	"github.com/deskfork/deskfork/internal/host/admission"
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

func inWorld(t *testing.T, limits recording.Limits, test func(w *world)) {
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
			Usage: func() (admission.Usage, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return admission.Usage{DiskAvailable: w.free}, nil
			},
			Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		}
		w.open()
		test(w)
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
