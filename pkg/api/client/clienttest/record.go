package clienttest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Video is the file of every recording.
const Video = "\x1A\x45\xDF\xA3 a film"

// routeRecordings serves recordings that are 90 s long.
func (s *Server) routeRecordings(m *http.ServeMux) {
	const d = "/v1/desktops/{d}/recordings"
	m.HandleFunc("POST "+d, s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		if g.recorded() {
			return reply{}, api.Errorf(api.CodeConflict, "desktop %s is recorded already", g.info.Name)
		}
		g.recordings = slices.Insert(g.recordings, 0, api.Recording{
			ID: fmt.Sprintf("r%04d", len(g.recordings)+1), Desktop: g.info.ID, Name: g.info.Name, State: api.RecordingRuns, Codec: "vp9",
			Width: 1280, Height: 800, Begun: epoch(), By: "t1", Chapters: []api.Chapter{{Title: "start"}},
		})
		return reply{status: http.StatusCreated, body: g.recordings[0]}, nil
	}))
	m.HandleFunc("POST "+d+"/stop", s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		if !g.recorded() {
			return reply{}, api.Errorf(api.CodePrecondition, "desktop %s is not recorded", g.info.Name)
		}
		const length = 90 * time.Second
		r := &g.recordings[0]
		r.State, r.Reason, r.Ended, r.DurationMS, r.Bytes = api.RecordingFinished, "stopped", epoch().Add(length), length.Milliseconds(), int64(len(Video))
		return reply{body: *r}, nil
	}))
	m.HandleFunc("GET "+d, s.at(func(g *guest, _ *http.Request) (reply, *api.Error) {
		return reply{body: api.RecordingList{Recordings: slices.Clone(g.recordings)}}, nil
	}))
	m.HandleFunc("GET "+d+"/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.WebMMIME)
		_, _ = w.Write([]byte(Video))
	})
	m.HandleFunc("DELETE "+d+"/{id}", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		n := len(g.recordings)
		g.recordings = slices.DeleteFunc(g.recordings, func(x api.Recording) bool { return x.ID == r.PathValue("id") })
		if len(g.recordings) == n {
			return reply{}, api.Errorf(api.CodeNotFound, "no recording %q", r.PathValue("id"))
		}
		return reply{status: http.StatusNoContent}, nil
	}))
}

func (g *guest) recorded() bool {
	return len(g.recordings) > 0 && g.recordings[0].State == api.RecordingRuns
}
