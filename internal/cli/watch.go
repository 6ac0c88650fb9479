package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func (a *app) logsCmd() *cobra.Command {
	var opts client.LogOptions
	cmd := &cobra.Command{
		Use:   "logs D",
		Short: "Print a desktop's serial console or hypervisor log",
		Example: `  vmhost logs first
  vmhost logs -f first
  vmhost logs --source qemu --tail 50 first`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			r, err := d.Logs(cmd.Context(), opts)
			if err != nil {
				return err
			}
			defer r.Close()
			if _, err := io.Copy(a.Out, r); err != nil && cmd.Context().Err() == nil {
				return fmt.Errorf("read log: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&opts.Source, "source", "serial", "serial or qemu")
	cmd.Flags().IntVar(&opts.Tail, "tail", 0, "so many last `lines` (default: the server's)")
	cmd.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "go on as the log grows")
	command.OneOf(cmd, "source", "serial", "qemu")
	return cmd
}

func (a *app) eventsCmd() *cobra.Command {
	var opts client.EventOptions
	cmd := &cobra.Command{
		Use:   "events [D]",
		Short: "Print what happens as it happens",
		Long: `Prints events of the project, or of one desktop, until it is interrupted; with
--json one object a line. A broken link is mended without a gap.`,
		Example: `  vmhost events
  vmhost events first --after 0
  vmhost events --json | jq -r .type`,
		Args: command.Args(0, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			if len(given) > 0 {
				opts.Desktop = given[0]
			}
			return a.events(cmd.Context(), opts)
		},
	}
	cmd.Flags().Uint64Var(&opts.After, "after", 0, "begin behind the event with this `number`")
	return cmd
}

func (a *app) events(ctx context.Context, opts client.EventOptions) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	for e, err := range c.Events(ctx, opts) {
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, as it is meant to be
		case err != nil:
			return err
		case a.JSON:
			if err := a.Line(e); err != nil {
				return err
			}
		default:
			fmt.Fprintln(a.Out, eventLine(e))
		}
	}
	return nil
}

func eventLine(e api.Event) string {
	words := []string{e.Time.UTC().Format("2006-01-02T15:04:05Z"), e.Type, e.Desktop}
	for _, k := range slices.Sorted(maps.Keys(e.Data)) {
		words = append(words, fmt.Sprintf("%s=%v", k, e.Data[k]))
	}
	return show.Plain(strings.TrimRight(strings.Join(words, " "), " "))
}
