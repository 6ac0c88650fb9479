// Package films is the recordings of a fake server: each is 90 s long.
package films

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Video is the file of every recording.
const Video = "\x1A\x45\xDF\xA3 a film"

const length = 90 * time.Second

// Shelf is the recordings of one desktop, the newest first.
type Shelf struct{ list []api.Recording }

// Call answers a call about the recordings of a desktop with a status, 0 for 200,
// and a body.
type Call func(s *Shelf, d api.Desktop, r *http.Request) (status int, body any, problem *api.Error)

// Route registers the calls; at finds the desktop that one is about, and answers.
func Route(m *http.ServeMux, at func(Call) http.HandlerFunc) {
	const d = "/v1/desktops/{d}/recordings"
	m.HandleFunc("POST "+d, at(func(s *Shelf, d api.Desktop, _ *http.Request) (int, any, *api.Error) {
		if s.runs() {
			return 0, nil, api.Errorf(api.CodeConflict, "desktop %s is recorded already", d.Name)
		}
		s.list = slices.Insert(s.list, 0, api.Recording{
			ID: fmt.Sprintf("r%04d", len(s.list)+1), Desktop: d.ID, Name: d.Name, State: api.RecordingRuns, Codec: "vp9",
			Width: 1280, Height: 800, Begun: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), By: "t1", Chapters: []api.Chapter{{Title: "start"}},
		})
		return http.StatusCreated, s.list[0], nil
	}))
	m.HandleFunc("POST "+d+"/stop", at(func(s *Shelf, d api.Desktop, _ *http.Request) (int, any, *api.Error) {
		if !s.runs() {
			return 0, nil, api.Errorf(api.CodePrecondition, "desktop %s is not recorded", d.Name)
		}
		r := &s.list[0]
		r.State, r.Reason, r.Ended, r.DurationMS, r.Bytes = api.RecordingFinished, "stopped", r.Begun.Add(length), length.Milliseconds(), int64(len(Video))
		return 0, *r, nil
	}))
	m.HandleFunc("GET "+d, at(func(s *Shelf, _ api.Desktop, _ *http.Request) (int, any, *api.Error) {
		return 0, api.RecordingList{Recordings: slices.Clone(s.list)}, nil
	}))
	m.HandleFunc("GET "+d+"/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.WebMMIME)
		_, _ = w.Write([]byte(Video))
	})
	m.HandleFunc("DELETE "+d+"/{id}", at(func(s *Shelf, _ api.Desktop, r *http.Request) (int, any, *api.Error) {
		i := slices.IndexFunc(s.list, func(x api.Recording) bool { return x.ID == r.PathValue("id") })
		if i < 0 {
			return 0, nil, api.Errorf(api.CodeNotFound, "no recording %q", r.PathValue("id"))
		}
		s.list = slices.Delete(s.list, i, i+1)
		return http.StatusNoContent, nil, nil
	}))
}

func (s *Shelf) runs() bool { return len(s.list) > 0 && s.list[0].State == api.RecordingRuns }
