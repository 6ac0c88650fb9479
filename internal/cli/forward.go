package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func (a *app) forwardCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "forward D [[ADDRESS:]LOCAL:]PORT",
		Short: "Reach a port of a desktop from this machine",
		Long: `Listens on this machine's loopback and carries connections to a TCP port of the
desktop, its loopback included, until it is interrupted. It prints the address;
with local port 0 a free one is chosen.`,
		Example: `  vmhost forward first 8080
  vmhost forward first 3000:80
  vmhost forward first 0.0.0.0:3000:80`,
		Args: args(2, 2), ValidArgsFunction: a.completeDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			listen, port, err := parse.Forward(given[1])
			if err != nil {
				return err
			}
			d, err := a.desktop(given[0])
			if err != nil {
				return err
			}
			if _, err := d.Get(cmd.Context()); err != nil {
				return err // rather than at the first connection
			}
			return a.forward(cmd.Context(), d, listen, port)
		},
	}
}

func (a *app) forward(ctx context.Context, d *client.Desktop, listen string, port int) error {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	if err := a.print(map[string]any{"listen": l.Addr().String(), "desktop": d.Ref(), "port": port}, func(w io.Writer) {
		fmt.Fprintf(w, "%s -> %s:%d\n", l.Addr(), d.Ref(), port)
	}); err != nil {
		return err
	}
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", listen, err)
		}
		conns.Go(func() {
			defer conn.Close()
			if err := carry(ctx, conn, d, port); err != nil && ctx.Err() == nil {
				a.say("vmhost: connection of %s: %v", conn.RemoteAddr(), err)
			}
		})
	}
}

// carry copies both ways until both ends have said all they had.
func carry(ctx context.Context, local net.Conn, d *client.Desktop, port int) error {
	guest, err := d.Dial(ctx, port)
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
