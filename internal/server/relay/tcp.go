package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

// TCP copies both ways until both are done or one breaks, and closes both.
func TCP(ctx context.Context, ws *stream.Socket, conn net.Conn) error {
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
		_ = ws.Text(api.TCPMessage{Kind: "error", Error: Fault(err)}) // it may be gone
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
