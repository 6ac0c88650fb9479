// Package route registers handlers behind the gate, each with its rule, and
// describes them in the OpenAPI document.
package route

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/pkg/api"
)

// Route is one pattern of the mux.
type Route struct {
	Method string // empty: any
	Path   string
}

// Config is what routes hang on.
type Config struct {
	// Enter finds who a secret belongs to, as access.Desk.Enter does.
	Enter func(ctx context.Context, secret string) (token.Principal, context.Context, func(), error)
	// Ticket answers what a ticket with a role opens, as ticket.Views.Check does.
	Ticket func(secret string) (ticket.Grant, error)
	// Refused hears of calls that found no room.
	Refused func()
	// Short and Long are what calls of a kind share.
	Short, Long *gate.Lane
	// BodyIdle is how long a part of a body may take to come.
	BodyIdle time.Duration
	// Version is that of the program, for the OpenAPI document.
	Version string
}

// Table is the routes of a server. All are registered before the first request.
type Table struct {
	// Doc is the OpenAPI document.
	Doc *huma.OpenAPI

	cfg    Config
	mux    *http.ServeMux
	routes []Route
	api    huma.API
	// current is the rule of the operation that is being registered.
	current Rule
}

// New makes a table of the document's own routes alone.
func New(cfg Config) *Table {
	t := &Table{cfg: cfg, mux: http.NewServeMux(), current: Open}
	t.api = t.newAPI()
	t.Doc = t.api.OpenAPI()
	t.Schema(api.Error{})
	return t
}

// Handler is http.ServeMux.Handler; an empty pattern says that there is no route.
func (t *Table) Handler(r *http.Request) (h http.Handler, pattern string) { return t.mux.Handler(r) }

func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.mux.ServeHTTP(w, r) }

// Routes lists what is served.
func (t *Table) Routes() []Route { return slices.Clone(t.routes) }

// shortBody is how long the body of a short call may take in all.
const shortBody = 30 * time.Second

// Handle puts a handler behind the gate.
func (t *Table) Handle(pattern string, g Rule, h http.HandlerFunc) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	t.routes = append(t.routes, Route{Method: method, Path: path})
	t.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		st := gate.Of(r.Context())
		st.Route, st.Nested = pattern, g.nested
		r, end, err := t.Admit(r, g, st)
		if err != nil {
			gate.Problem(w, r, err)
			return
		}
		defer end()
		r, leave, err := t.lane(g.class).Enter(r, about(r, st))
		if err != nil {
			t.cfg.Refused()
			gate.Problem(w, r, err)
			return
		}
		defer leave()
		total := shortBody
		if g.body == Unlimited {
			total = 0
		}
		body := gate.NewBody(w, r, t.cfg.BodyIdle, total, g.body)
		defer body.Release()
		r.Body = body
		h(w, r)
	})
}

// lane is what the calls of a class share; nil: they are not limited.
func (t *Table) lane(c class) *gate.Lane {
	switch c {
	case short:
		return t.cfg.Short
	case long:
		return t.cfg.Long
	case free:
	}
	return nil
}

// about is the desktop that a request concerns, by whatever name; empty when it
// concerns none.
func about(r *http.Request, st *gate.State) string {
	name := cmp.Or(r.PathValue("desktop"), r.PathValue("ticket"), r.PathValue("sandbox"))
	if name == "" {
		return ""
	}
	return st.Principal.Project + "\n" + name
}

// Admit finds who calls and whether they may. The request's context ends when
// the token is revoked; end is called after it.
func (t *Table) Admit(r *http.Request, g Rule, st *gate.State) (_ *http.Request, end func(), _ error) {
	if g.scope == "" {
		return r, func() {}, nil
	}
	secret := gate.Bearer(r)
	if g.role != "" {
		shown, err := gate.Tickets(r, secret)
		if err != nil {
			return r, nil, err
		}
		if len(shown) > 0 {
			return t.admitTicket(r, g, st, shown)
		}
	}
	if secret == "" {
		return r, nil, gate.ErrNoToken()
	}
	p, ctx, end, err := t.cfg.Enter(r.Context(), secret)
	if err != nil {
		return r, nil, err
	}
	st.Principal = p
	if !p.Can(g.scope) {
		end()
		return r, nil, api.Errorf(api.CodeForbidden, "this token lacks the scope %q", g.scope)
	}
	return r.WithContext(ctx), end, nil
}

// admitTicket is Admit for who shows tickets: the one counts that fits and may do
// most, the same on every route, so that its holder is always the same. The request's
// context ends with it.
func (t *Table) admitTicket(r *http.Request, g Rule, st *gate.State, secrets []string) (*http.Request, func(), error) {
	var grant ticket.Grant
	var refused error
	for _, secret := range secrets {
		found, err := t.cfg.Ticket(secret)
		if err == nil {
			err = g.fits(found, r.PathValue("desktop"))
		}
		switch {
		case err != nil && refused == nil:
			refused = err
		case err == nil && (grant.Role == "" || !grant.Role.Can(found.Role)):
			grant = found
		}
	}
	if grant.Role == "" {
		return r, nil, refused
	}
	if !grant.Role.Can(g.role) {
		return r, nil, api.Errorf(api.CodeForbidden, "a ticket of role %q may not do this: it takes %q", grant.Role, g.role)
	}
	st.Principal, st.Grant = token.Principal{TokenID: grant.Token, Project: grant.Project}, &grant
	ctx, end := grant.Bind(r.Context())
	return r.WithContext(ctx), end, nil
}

// Hold is the context of what outlives the call that begins it: it ends with the
// token or the ticket of that call. end is called after it.
func (t *Table) Hold(r *http.Request) (_ context.Context, end func(), _ error) {
	ctx := context.WithoutCancel(r.Context())
	if g := gate.Of(ctx).Grant; g != nil {
		ctx, end := g.Bind(ctx)
		return ctx, end, nil
	}
	_, ctx, end, err := t.cfg.Enter(ctx, gate.Bearer(r))
	return ctx, end, err
}

// fits says whether a ticket is for what a route is about.
func (g Rule) fits(t ticket.Grant, desktop string) error {
	switch {
	case t.Desktop == "":
		return nil // the project's desktops are looked up in it
	case g.wide:
		return api.Errorf(api.CodeForbidden, "the ticket is for one desktop; this takes one of the project")
	case t.Desktop != desktop:
		return api.Errorf(api.CodeForbidden, "the ticket is for another desktop; name the desktop by its id")
	}
	return nil
}

// Stream registers a plain handler and describes it in the OpenAPI document.
func (t *Table) Stream(op huma.Operation, g Rule, h func(http.ResponseWriter, *http.Request) error) {
	op.Method = strings.ToUpper(op.Method)
	t.Handle(op.Method+" "+op.Path, g, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			t.fail(w, r, err)
		}
	})
	Describe(&op)
	t.Doc.AddOperation(&op)
}

// fail answers with a problem. An answer that has begun ends with it in a trailer
// when the client looks for one, and is cut short otherwise: half of it must not be
// taken for the whole.
func (t *Table) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = gate.Why(r.Context(), err)
	if rec, ok := w.(*gate.Recorder); ok && rec.Begun() {
		e := fault.From(err)
		gate.Note(r, e)
		if trails(w, r, e) {
			return
		}
		panic(http.ErrAbortHandler) //nolint:forbidigo // the documented way to cut an answer short
	}
	gate.Problem(w, r, err)
}

// trails ends an answer whose length was not promised with a trailer.
func trails(w http.ResponseWriter, r *http.Request, e *api.Error) bool {
	if w.Header().Get("Content-Length") != "" || !r.ProtoAtLeast(1, 1) || !strings.Contains(r.Header.Get("TE"), "trailers") {
		return false
	}
	said := *e
	said.Log = "" // it may be longer than a header
	raw, err := json.Marshal(said)
	// A short answer that is not on its way yet would get a length, and no trailer.
	if err != nil || http.NewResponseController(w).Flush() != nil {
		return false
	}
	w.Header().Set(http.TrailerPrefix+api.HeaderProblem, string(raw))
	return true
}
