package server

import (
	"cmp"
	"html/template"
	"net/http"
	"net/netip"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/gate"
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
	return huma.SchemaFromType(s.doc.Components.Schemas, typeOf(v))
}

// answersJSON describes an answer of a stream that is JSON.
func (s *Server) answersJSON(status int, v any) map[string]*huma.Response {
	m := answers(status, http.StatusText(status), "application/json")
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
	s.handle("GET /docs", open, s.docs)
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

// docsPage lists the operations without a script, so that it works offline.
var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Deskfork API</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{background:#8882;padding:.1em .3em}li{margin:.4em 0}</style>
<h1>Deskfork API</h1>
<p>{{.Description}} The full description is at <a href="/openapi.json">/openapi.json</a> and <a href="/openapi.yaml">/openapi.yaml</a>.</p>
<ul>{{range .Operations}}<li><code>{{.Method}} {{.Path}}</code> {{.Summary}}</li>{{end}}</ul></html>
`))

type docsRow struct{ Method, Path, Summary string }

func (s *Server) docs(w http.ResponseWriter, _ *http.Request) {
	var rows []docsRow
	for path, item := range s.doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				rows = append(rows, docsRow{op.Method, path, op.Summary})
			}
		}
	}
	slices.SortFunc(rows, func(a, b docsRow) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) })
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = docsPage.Execute(w, map[string]any{"Description": s.doc.Info.Description, "Operations": rows}) // the client may be gone
}
