package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

func (s *Server) registerTCP() {
	s.stream(huma.Operation{
		OperationID: "tcp", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/tcp/{port}", Tags: []string{"network"},
		Summary:     "Reach a TCP port of the guest (WebSocket " + api.SubprotocolTCP + ")",
		Description: "Binary messages are bytes; the text message TCPMessage half-closes. The guest's loopback is included.",
		Parameters:  pathParams("desktop", "port"),
		Responses:   switching(),
	}, write.long(), s.tcp)
}

func (s *Server) tcp(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		return api.Errorf(api.CodeInvalid, "port %q: want 1 to 65535", r.PathValue("port"))
	}
	if err := wantsSocket(r); err != nil {
		return err
	}
	conn, err := s.host.Dial(r.Context(), project(r.Context()), r.PathValue("desktop"), port)
	if err != nil {
		return err
	}
	ws, ctx, err := stream.Upgrade(w, r, api.SubprotocolTCP, s.limits.Heartbeat)
	if err != nil {
		_ = conn.Close() // nobody uses it
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	end := splice(ctx, ws, conn)
	if end != nil {
		gate.Note(r, socketFault(end))
	}
	return nil
}

// splice copies both ways until both are done or one breaks, and closes both.
func splice(ctx context.Context, ws *stream.Socket, conn net.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	var reader sync.WaitGroup
	reader.Go(func() {
		err := fromSocket(ws, conn)
		cancel(err)
	})
	err := ws.Copy(conn)
	if err == nil {
		err = ws.Text(api.TCPMessage{Kind: "eof"})
	}
	if err == nil {
		// The guest has said all; the client may go on until it closes.
		<-ctx.Done()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		_ = ws.Text(api.TCPMessage{Kind: "error", Error: socketFault(err)}) // it may be gone
	}
	stop()
	_ = conn.Close()
	ws.Close(err)
	reader.Wait()
	return err
}

// fromSocket writes what the client sends to the guest until the client closes.
func fromSocket(ws *stream.Socket, conn net.Conn) error {
	for {
		m, err := ws.Next()
		if err != nil {
			return err
		}
		if m.Binary != nil {
			if _, err := io.Copy(conn, m.Binary); err != nil {
				return err
			}
			continue
		}
		var t api.TCPMessage
		if err := json.Unmarshal(m.Text, &t); err != nil || t.Kind != "eof" {
			return fmt.Errorf("%w: text other than eof", stream.ErrProtocol)
		}
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			if err := half.CloseWrite(); err != nil {
				return err
			}
		}
	}
}
