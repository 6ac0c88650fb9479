// Package watch is how people see a desktop: signalling of WebRTC by WHEP
// (draft-ietf-wish-whep), and the same pictures over one WebSocket for who finds no
// other way.
package watch

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
)

// Config is what the routes work on.
type Config struct {
	// Endpoint takes viewers by WebRTC. Nil: WHEP answers unsupported.
	Endpoint *rtc.Endpoint
	// Join lets a viewer in. via is what carries its pixels.
	Join func(r *http.Request, via string) (Visit, error)
	// Beat is the pause between signs of life on WebSockets.
	Beat time.Duration
}

// Visit is a viewer's stay.
type Visit interface {
	// Stream is what it sees; nil: the screen cannot be watched.
	Stream() *stream.Stream
	// Control takes its input; nil: it may only look.
	Control() rtc.Control
	// Leave ends the stay. It is called once.
	Leave()
}

// desk is the routes.
type desk struct {
	Config

	routes *route.Table
}

// Types of bodies.
const (
	mimeSDP      = "application/sdp"
	mimeFragment = "application/trickle-ice-sdpfrag"
)

// maxSDP bounds a description, in bytes.
const maxSDP = 64 << 10

// Register registers the routes.
func Register(t *route.Table, cfg Config) {
	d := &desk{Config: cfg, routes: t}
	tags := []string{"watch"}
	holder := spec.Header(api.HeaderHolder, "Name of a token's viewer; default: made up")
	const whep = "/v1/desktops/{desktop}/whep"
	t.Stream(huma.Operation{
		OperationID: "whep", Method: http.MethodPost, Path: whep, Tags: tags, Summary: "Watch by WebRTC (WHEP)",
		Description: "The body is an offer, the answer an answer. Location is where the viewer ends (DELETE) and where more addresses go " +
			"(PATCH); Link names servers that help to find a way. Data channels named cursor, moves and input are taken if they are offered. " +
			"406 when no codec fits.",
		Parameters:  append(spec.Path("desktop"), holder),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(mimeSDP)},
		Responses:   spec.Answers(http.StatusCreated, "An answer", mimeSDP),
	}, route.Read.Size(maxSDP).For(ticket.View), d.offer)
	t.Stream(huma.Operation{
		OperationID: "whep-trickle", Method: http.MethodPatch, Path: whep + "/{viewer}", Tags: tags, Summary: "Add addresses of a viewer",
		Parameters:  append(spec.Path("desktop", "viewer"), spec.Header("If-Match", "The ETag of the viewer")),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(mimeFragment)},
		Responses:   map[string]*huma.Response{strconv.Itoa(http.StatusNoContent): {Description: "Taken"}},
	}, route.Read.Size(maxSDP).For(ticket.View), d.trickle)
	t.Stream(huma.Operation{
		OperationID: "whep-status", Method: http.MethodGet, Path: whep + "/{viewer}", Tags: tags, Summary: "How a viewer is doing",
		Description: "Its figures as the host sees them, and the pairs of addresses that were tried: what there is to say when none works. " +
			"A viewer that finds no way within 30 s has left.",
		Parameters: spec.Path("desktop", "viewer"), Responses: t.AnswersJSON(http.StatusOK, api.ViewerStatus{}),
	}, route.Read.For(ticket.View), d.status)
	t.Stream(huma.Operation{
		OperationID: "whep-end", Method: http.MethodDelete, Path: whep + "/{viewer}", Tags: tags, Summary: "End a viewer",
		Parameters: spec.Path("desktop", "viewer"),
		Responses:  map[string]*huma.Response{strconv.Itoa(http.StatusOK): {Description: "It has ended"}},
	}, route.Read.For(ticket.View), d.leave)
	for _, o := range []struct {
		id, path, methods string
		names             []string
	}{
		{"whep-options", whep, "POST", []string{"desktop"}},
		{"whep-viewer-options", whep + "/{viewer}", "GET, PATCH, DELETE", []string{"desktop", "viewer"}},
	} {
		t.Stream(huma.Operation{
			OperationID: o.id, Method: http.MethodOptions, Path: o.path, Tags: tags, Summary: "What a page of another origin may send",
			Parameters: spec.Path(o.names...), Security: []map[string][]string{{}},
			Responses: map[string]*huma.Response{strconv.Itoa(http.StatusNoContent): {Description: "Headers say it"}},
		}, route.Open, preflight(o.methods))
	}
	t.Stream(huma.Operation{
		OperationID: "stream", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/stream", Tags: tags,
		Summary:     "Watch over a WebSocket (" + api.SubprotocolStream + ")",
		Description: "For who finds no way by WebRTC: the same pictures and messages. docs/viewer.md has the messages.",
		Parameters: append(spec.Path("desktop"), holder,
			spec.Query("codec", "string", "What the client decodes, the best first: vp9,vp8,tiles (default tiles)")),
		Responses: spec.Switching(),
	}, route.Read.Long().For(ticket.View), d.socket)
	t.Schema(api.StreamMessage{})
}

// join lets a viewer in who can be shown something.
func (d *desk) join(r *http.Request, via string) (Visit, error) {
	v, err := d.Join(r, via)
	if err != nil {
		return nil, err
	}
	if v.Stream() == nil {
		v.Leave()
		return nil, api.Errorf(api.CodeUnsupported, "this desktop's screen cannot be watched")
	}
	return v, nil
}

// endpoint is where viewers are taken.
func (d *desk) endpoint() (*rtc.Endpoint, error) {
	if d.Endpoint != nil {
		return d.Endpoint, nil
	}
	e := api.Errorf(api.CodeUnsupported, "this host takes no viewers by WebRTC")
	e.Hint = "watch over the WebSocket …/stream, or start vmhost serve with --media-listen"
	return nil, e
}

// owner is the word for whose viewer a request is about: of one desktop, under one
// token, ticket or browser.
func owner(r *http.Request) string {
	st := gate.Of(r.Context())
	by := "token\n" + st.Principal.TokenID
	if g := st.Grant; g != nil {
		by = "ticket\n" + g.ID + "\n" + g.Session
	}
	return r.PathValue("desktop") + "\n" + by
}

// faultOf gives errors of WebRTC their statuses.
func faultOf(err error) error {
	switch {
	case errors.Is(err, rtc.ErrCodec):
		return status(http.StatusNotAcceptable, api.Errorf(api.CodeUnsupported, "%s", err))
	case errors.Is(err, rtc.ErrOffer):
		return status(http.StatusBadRequest, api.Errorf(api.CodeInvalid, "%s", err))
	}
	return err
}

func status(code int, e *api.Error) *api.Error {
	e.Status, e.Title = code, http.StatusText(code)
	return e
}
