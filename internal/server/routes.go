package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/pkg/api"
)

// class says how a route is limited.
type class int

const (
	short class = iota // an answer within a moment
	long               // a stream, a wait or a program
	free               // never limited: health, so that it tells the truth
)

// Body limits in bytes.
const (
	maxJSON      = 1 << 20
	maxInput     = 4 << 20
	maxExec      = 8 << 20
	maxClipboard = 32 << 20
	unlimited    = 0
)

// rule is how a route is guarded.
type rule struct {
	scope string // empty: open to everybody
	class class
	body  int64 // limit; unlimited: as long as it takes
}

var (
	read  = rule{scope: token.ScopeRead, body: maxJSON}
	write = rule{scope: token.ScopeWrite, body: maxJSON}
	admin = rule{scope: token.ScopeAdmin, body: maxJSON}
	open  = rule{class: free, body: maxJSON}
)

func (g rule) long() rule            { g.class = long; return g }
func (g rule) size(limit int64) rule { g.body = limit; return g }

// Route is one pattern of the mux.
type Route struct {
	Method string // empty: any
	Path   string
}

// shortBody is how long the body of a short call may take in all.
const shortBody = 30 * time.Second

// handle puts a handler behind the gate.
func (s *Server) handle(pattern string, g rule, h http.HandlerFunc) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	s.routes = append(s.routes, Route{Method: method, Path: path})
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		st := gate.Of(r.Context())
		st.Route = pattern
		if err := s.admit(r, g, st); err != nil {
			gate.Problem(w, r, err)
			return
		}
		r, leave, err := s.lane(g.class).Enter(r, about(r, st))
		if err != nil {
			s.host.Metrics().Refused()
			gate.Problem(w, r, err)
			return
		}
		defer leave()
		total := shortBody
		if g.body == unlimited {
			total = 0
		}
		r.Body = gate.NewBody(w, r, s.limits.BodyIdle, total, g.body)
		h(w, r)
	})
}

// lane is what the calls of a class share; nil: they are not limited.
func (s *Server) lane(c class) *gate.Lane {
	switch c {
	case short:
		return s.short
	case long:
		return s.long
	case free:
	}
	return nil
}

// about is the desktop that a request concerns, by whatever name; empty when it
// concerns none.
func about(r *http.Request, st *gate.State) string {
	name := cmp.Or(r.PathValue("desktop"), r.PathValue("ticket"))
	if name == "" {
		return ""
	}
	return st.Principal.Project + "\n" + name
}

// admit finds who calls and whether they may.
func (s *Server) admit(r *http.Request, g rule, st *gate.State) error {
	if g.scope == "" {
		return nil
	}
	secret := gate.Bearer(r)
	if secret == "" {
		return gate.ErrNoToken()
	}
	p, err := s.host.Access.Authenticate(r.Context(), secret)
	if err != nil {
		return err
	}
	st.Principal = p
	if !p.Can(g.scope) {
		return api.Errorf(api.CodeForbidden, "this token lacks the scope %q", g.scope)
	}
	return nil
}

// stream registers a plain handler and describes it in the OpenAPI document.
func (s *Server) stream(op huma.Operation, g rule, h func(http.ResponseWriter, *http.Request) error) {
	op.Method = strings.ToUpper(op.Method)
	s.handle(op.Method+" "+op.Path, g, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
	describe(&op)
	s.doc.AddOperation(&op)
}

// fail answers with a problem, or cuts the answer short when it has begun: the
// client must not take half of it for the whole.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if rec, ok := w.(*gate.Recorder); ok && rec.Begun() {
		gate.Note(r, fault.From(err))
		panic(http.ErrAbortHandler) //nolint:forbidigo // the documented way to cut an answer short
	}
	gate.Problem(w, r, err)
}

// muxAdapter lets huma register on the guarded mux. The rule is that of the
// operation being registered.
type muxAdapter struct{ s *Server }

// HandleFunc implements humago.Mux.
func (m *muxAdapter) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.s.handle(pattern, m.s.current, h)
}

func (m *muxAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.s.mux.ServeHTTP(w, r) }

// reply is the answer of a JSON call.
type reply[T any] struct {
	Body T
}

// none is the answer of a call that has nothing to say.
type none struct{}

// call registers a JSON call.
func call[I, O any](s *Server, op huma.Operation, g rule, fn func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // the gate bounds bodies
	describe(&op)
	s.current = g
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := fn(ctx, in)
		if err != nil {
			return nil, s.noted(ctx, err)
		}
		return out, nil
	})
	s.current = open
}

// noted keeps an error for the access log and gives it its code.
func (s *Server) noted(ctx context.Context, err error) error {
	e := fault.From(err)
	gate.NoteContext(ctx, e)
	return e
}

// describe adds what every operation has.
func describe(op *huma.Operation) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem; branch on its code",
		Content:     map[string]*huma.MediaType{api.ErrorMIME: {Schema: &huma.Schema{Ref: "#/components/schemas/Error"}}},
	}
}

func project(ctx context.Context) string { return gate.Of(ctx).Principal.Project }

// holder is under which lease a request is made.
func holder(ctx context.Context, name string, epoch uint64) host.Holder {
	if name == "" {
		name = gate.Of(ctx).Principal.TokenID
	}
	return host.Holder{Name: name, Epoch: epoch}
}

// Routes lists what is served.
func (s *Server) Routes() []Route { return slices.Clone(s.routes) }
