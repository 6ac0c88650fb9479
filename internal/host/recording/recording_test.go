//go:build cgo

package recording_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/recording"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// TestRecord: a still screen and some actions, with a key at each chapter and every
// ten seconds, cues to all of them, and one line in the audit log for each end.
func TestRecord(t *testing.T) {
	inWorld(t, recording.Limits{}, func(w *world) {
		t := w.t
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
			inWorld(t, recording.Limits{}, func(w *world) {
				t := w.t
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
	inWorld(t, recording.Limits{}, func(w *world) {
		t := w.t
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
	inWorld(t, recording.Limits{Bytes: 40_000, Age: time.Hour}, func(w *world) {
		t := w.t
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
	inWorld(t, recording.Limits{}, func(w *world) {
		t := w.t
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
