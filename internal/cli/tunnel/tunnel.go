// Package tunnel carries connections of a listener to another place.
package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Dial opens the far end of a connection.
type Dial func(ctx context.Context) (net.Conn, error)

// Serve accepts connections and carries each to a dialled one until ctx ends,
// which closes all of them and the listener. It returns when all have ended;
// failed hears of those that broke.
func Serve(ctx context.Context, l net.Listener, dial Dial, failed func(from net.Addr, err error)) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		conns.Go(func() {
			defer conn.Close()
			if err := carry(ctx, conn, dial); err != nil && ctx.Err() == nil {
				failed(conn.RemoteAddr(), err)
			}
		})
	}
}

// carry copies both ways until both ends have said all they had.
func carry(ctx context.Context, local net.Conn, dial Dial) error {
	guest, err := dial(ctx)
	if err != nil {
		return err
	}
	defer guest.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = local.Close(), guest.Close() })
	defer stop()
	up := make(chan error, 1)
	go func() { up <- half(guest, local) }()
	down := half(local, guest)
	return errors.Join(down, <-up)
}

// half copies one direction and hands its end on. When that fails both
// connections are closed, so that the other direction ends, too.
func half(to, from net.Conn) error {
	_, err := io.Copy(to, from)
	if err == nil {
		if w, ok := to.(interface{ CloseWrite() error }); ok {
			err = w.CloseWrite()
		}
	}
	if err != nil {
		_, _ = to.Close(), from.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
