package server

import (
	"context"
	"net/http"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/relay"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// attachExec joins a WebSocket to an exec of the guest.
func (s *Server) attachExec(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	p := guest.ExecAttachParams{
		ID:      guest.ExecID(r.PathValue("exec")),
		OutFrom: max(q.Int64("out_from", 0), 0), ErrFrom: max(q.Int64("err_from", 0), 0), Stdin: q.Bool("stdin"),
	}
	if err := q.Err(); err != nil {
		return err
	}
	l, err := s.host.Guest(r.Context(), route.Project(r.Context()), r.PathValue("desktop"))
	if err != nil {
		return err
	}
	if err := stream.Wanted(r); err != nil {
		return err
	}
	a, err := l.Execs.Attach(r.Context(), p)
	if err != nil {
		return err
	}
	ctx, lost := context.WithCancel(r.Context())
	defer lost()
	ws, err := stream.Upgrade(w, r, api.SubprotocolExec, s.limits.Heartbeat, lost)
	if err != nil {
		_ = a.Close() // nobody is attached
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	if err := relay.Exec(ctx, ws, a, l.Execs, p.ID); err != nil {
		gate.Note(r, relay.Fault(err))
	}
	return nil
}
