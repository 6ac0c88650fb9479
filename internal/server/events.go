package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

func (s *Server) registerEvents() {
	after := spec.Query("after", "integer", "Number of the last event seen; Last-Event-ID says the same")
	op := huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: "/v1/events", Tags: []string{"events"},
		Summary: "What happens to desktops (server-sent events of Event)",
		Description: "Begins with what came after the event named, as far as it is kept; an event events.lost tells of a gap. " +
			"A client that reads too slowly is cut off and may come back.",
		Parameters: []*huma.Param{spec.Query("desktop", "string", "Id or name"), after, spec.Header("Last-Event-ID", "Number of the last event seen")},
		Responses:  spec.Answers(http.StatusOK, "Events", "text/event-stream"),
	}
	s.routes.Stream(op, route.Read.Long().ForProject(ticket.View), func(w http.ResponseWriter, r *http.Request) error {
		return s.sendEvents(w, r, r.URL.Query().Get("desktop"))
	})
	op.OperationID, op.Path, op.Summary = "desktop-events", "/v1/desktops/{desktop}/events", "What happens to one desktop (server-sent events of Event)"
	op.Parameters = append(spec.Path("desktop"), after)
	op.Responses = spec.Answers(http.StatusOK, "Events", "text/event-stream")
	s.routes.Stream(op, route.Read.Long().For(ticket.View), func(w http.ResponseWriter, r *http.Request) error {
		return s.sendEvents(w, r, r.PathValue("desktop"))
	})
	s.routes.Stream(huma.Operation{
		OperationID: "logs", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/logs", Tags: []string{"events"},
		Summary: "Read a log of the machine",
		Parameters: append(spec.Path("desktop"), spec.Query("source", "string", "serial (default) or qemu"),
			spec.Query("tail", "integer", "Lines from the end; default 200, negative: all"), spec.Query("follow", "boolean", "Go on until the machine ends")),
		Responses: spec.Answers(http.StatusOK, "The log", "text/plain"),
	}, route.Read.Long().For(ticket.Admin), s.logs)
}

func (s *Server) sendEvents(w http.ResponseWriter, r *http.Request, ref string) error {
	q := param.Of(r)
	from := q.Int64("after", 0)
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return api.Errorf(api.CodeInvalid, "Last-Event-ID: want a number")
		}
		from = n
	}
	if from < 0 {
		q.Bad("after", "want 0 or more")
	}
	if err := q.Err(); err != nil {
		return err
	}
	p := gate.Of(r.Context()).Principal
	filter := event.Filter{Project: p.Project}
	if ref == "" && p.Can(token.ScopeAdmin) {
		filter.Project = "" // who runs the host sees all of it
	}
	if ref != "" {
		v, err := s.host.Desktop(r.Context(), p.Project, ref)
		if err != nil {
			return err
		}
		filter.Desktop = v.ID
	}
	// Without a number a client sees what happens from now on.
	if from == 0 {
		from = int64(s.host.Events().Last())
	}
	sub := s.host.Events().Subscribe(filter, uint64(from))
	return route.Events(w, r, s.limits.Heartbeat, func(ctx context.Context, out *stream.Events) error {
		for {
			e, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			if err := out.Send(e.Seq, e.Type, e); err != nil {
				return err
			}
		}
	})
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	req := host.LogRequest{
		Source: q.One("source", host.LogSerial, host.LogQEMU), Lines: int(q.Int64("tail", 200)), Follow: q.Bool("follow"),
	}
	if err := q.Err(); err != nil {
		return err
	}
	out := stream.NewWriter(w, req.Follow, func(h http.Header) int {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		return http.StatusOK
	})
	req.Flush = out.Begin // an empty log answers at once
	return s.host.Logs(r.Context(), route.Project(r.Context()), r.PathValue("desktop"), req, out)
}

// uploadFault names the stage of an upload that failed.
func uploadFault(err error) error { return fault.At("upload", err) }
