package server

import (
	"net/http"
	"net/netip"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
)

// register registers every route.
func (s *Server) register() {
	s.current = open
	s.api = s.newAPI()
	s.doc = s.api.OpenAPI()
	s.schema(api.Error{})
	s.registerHost()
	s.registerImages()
	s.registerTokens()
	s.registerDesktops()
	s.registerEvents()
	s.registerExecs()
	s.registerFiles()
	s.registerChanges()
	s.registerScreen()
	s.registerControl()
	s.registerTCP()
	s.registerPreview()
	s.registerPages()
	// What streams carry is described though no operation of huma has it.
	for _, v := range []any{api.Event{}, api.FileChange{}, api.ExecMessage{}, api.TCPMessage{}} {
		s.schema(v)
	}
}

// schema makes a type known to the OpenAPI document.
func (s *Server) schema(v any) *huma.Schema {
	return huma.SchemaFromType(s.doc.Components.Schemas, reflect.TypeOf(v))
}

// answersJSON describes an answer of a stream that is JSON.
func (s *Server) answersJSON(status int, v any) map[string]*huma.Response {
	m := spec.Answers(status, http.StatusText(status), "application/json")
	for _, r := range m {
		r.Content["application/json"] = &huma.MediaType{Schema: s.schema(v)}
	}
	return m
}

func (s *Server) registerPages() {
	s.handle("GET /healthz", open, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.host.Ready():
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		default:
			gate.Problem(w, r, api.Errorf(api.CodeNoCapacity, "the host is looking for desktops that still run"))
		}
	})
	s.handle("GET /metrics", rule{class: free, body: maxJSON}, s.metrics)
	s.handle("GET /docs", open, func(w http.ResponseWriter, _ *http.Request) { spec.Page(s.doc, w) })
}

// metrics needs a token, or a loopback client where that is allowed.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	st := gate.Of(r.Context())
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	local := err == nil && remote.Addr().Unmap().IsLoopback() && st.Client.IsLoopback()
	if !s.cfg.OpenMetrics || !local {
		if err := s.admit(r, read, st); err != nil {
			gate.Problem(w, r, err)
			return
		}
	}
	s.host.Metrics().Handler().ServeHTTP(w, r)
}
