package cli

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/tunnel"
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
		Args: command.Args(2, 2), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			listen, port, err := parse.Forward(given[1])
			if err != nil {
				return err
			}
			d, err := a.Desktop(given[0])
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
	if err := a.Print(map[string]any{"listen": l.Addr().String(), "desktop": d.Ref(), "port": port}, func(w io.Writer) {
		fmt.Fprintf(w, "%s -> %s:%d\n", l.Addr(), d.Ref(), port)
	}); err != nil {
		return err
	}
	return tunnel.Serve(ctx, l, func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, port) }, func(from net.Addr, err error) {
		a.Say("vmhost: connection of %s: %v", from, err)
	})
}
