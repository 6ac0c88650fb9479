// Package dial connects the host to TCP ports as the guest sees them, its
// loopback included.
package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Service dials. Its zero value is ready.
type Service struct {
	dialer net.Dialer
}

// Routes are the operations of the service.
func (s *Service) Routes() mux.Router {
	return mux.Router{guest.OpDial: mux.Streaming(1, s.dial)}
}

func (s *Service) dial(ctx context.Context, c *mux.Call, p guest.DialParams) (any, error) {
	if p.Port < 1 || p.Port > 65535 {
		return nil, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("port %d is not within 1 to 65535", p.Port)}
	}
	addr := net.JoinHostPort(cmp.Or(p.Host, "localhost"), strconv.Itoa(p.Port))
	conn, err := s.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dial port: %w", err)
	}
	defer conn.Close()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, fmt.Errorf("dial %s: not a TCP connection", addr)
	}
	if err := c.Reply(nil); err != nil {
		return nil, err
	}
	return nil, join(ctx, tcp, c.Streams[0])
}

// join copies both ways until both have ended; an end of one way is passed on
// and leaves the other.
func join(ctx context.Context, tcp *net.TCPConn, st *mux.Stream) error {
	stop := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	defer stop()
	var work sync.WaitGroup
	var up error
	work.Go(func() {
		_, up = io.Copy(tcp, st)
		if errors.Is(up, io.EOF) || up == nil {
			up = tcp.CloseWrite()
		}
		if up != nil {
			// The port takes no more; what it still says is wanted.
			_ = st.CloseRead()
		}
	})
	_, down := io.Copy(onlyWriter{st}, tcp)
	if down == nil {
		down = st.CloseWrite()
	} else {
		_ = tcp.Close()
		_ = st.CloseRead() // wakes the other way
	}
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if down != nil {
		return fmt.Errorf("read from port: %w", down)
	}
	return nil
}

type onlyWriter struct{ io.Writer }
