package route

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
)

// humaErrors makes huma speak in our errors. They are variables of the library, so
// they are set once for the process, always to the same functions.
var humaErrors = sync.OnceFunc(func() {
	huma.NewError = newProblem
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		e := newProblem(status, msg, errs...)
		if p, ok := errors.AsType[*api.Error](e); ok && ctx != nil {
			return gate.Dress(ctx.Context(), p)
		}
		return e
	}
})

// newAPI makes huma's side of the mux.
func (t *Table) newAPI() huma.API {
	humaErrors()
	cfg := huma.DefaultConfig("Deskfork", cmp.Or(t.cfg.Version, "devel"))
	cfg.Info.Description = "Whole desktops for computer-use agents: create, run programs, move files, look, click, type."
	cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", nil
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "Made on first start in the data directory, file token"},
	}
	cfg.Security = []map[string][]string{{"token": {}}}
	return humago.New(&muxAdapter{t: t}, cfg)
}

// muxAdapter lets huma register on the guarded mux. The rule is that of the
// operation being registered.
type muxAdapter struct{ t *Table }

// HandleFunc implements humago.Mux.
func (m *muxAdapter) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.t.Handle(pattern, m.t.current, h)
}

func (m *muxAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.t.mux.ServeHTTP(w, r) }

// Schema makes a type known to the OpenAPI document.
func (t *Table) Schema(v any) *huma.Schema {
	return huma.SchemaFromType(t.Doc.Components.Schemas, reflect.TypeOf(v))
}

// AnswersJSON describes an answer of a stream that is JSON.
func (t *Table) AnswersJSON(status int, v any) map[string]*huma.Response {
	m := spec.Answers(status, http.StatusText(status), "application/json")
	for _, r := range m {
		r.Content["application/json"] = &huma.MediaType{Schema: t.Schema(v)}
	}
	return m
}

// WriteJSON is the answer of a stream that is JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}
