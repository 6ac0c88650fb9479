package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/relay"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

func (s *Server) registerTCP() {
	s.routes.Stream(huma.Operation{
		OperationID: "tcp", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/tcp/{port}", Tags: []string{"network"},
		Summary:     "Reach a TCP port of the guest (WebSocket " + api.SubprotocolTCP + ")",
		Description: "Binary messages are bytes; the text message TCPMessage half-closes. The guest's loopback is included.",
		Parameters:  spec.Path("desktop", "port"),
		Responses:   spec.Switching(),
	}, route.Write.Long(), s.tcp)
}

func (s *Server) tcp(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		return api.Errorf(api.CodeInvalid, "port %q: want 1 to 65535", r.PathValue("port"))
	}
	if err := stream.Wanted(r); err != nil {
		return err
	}
	conn, err := s.host.Ports.Dial(r.Context(), route.Project(r.Context()), r.PathValue("desktop"), port)
	if err != nil {
		return err
	}
	ctx, lost := context.WithCancel(r.Context())
	defer lost()
	ws, err := stream.Upgrade(w, r, api.SubprotocolTCP, s.limits.Heartbeat, lost)
	if err != nil {
		_ = conn.Close() // nobody uses it
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	if err := relay.TCP(ctx, ws, conn); err != nil {
		gate.Note(r, relay.Fault(err))
	}
	return nil
}
