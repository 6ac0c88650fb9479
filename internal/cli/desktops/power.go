package desktops

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// turn is a verb that takes nothing but desktops.
type turn struct {
	verb, short, long string
	do                func(context.Context, *client.Desktop) (api.Desktop, error)
}

func (a *group) pauseCmd() *cobra.Command {
	return a.turnCmd(turn{
		"pause", "Stop desktops' processors", `Stops the processors of desktops. Memory stays where it is; nothing in them runs
until they are resumed.`,
		func(ctx context.Context, d *client.Desktop) (api.Desktop, error) { return d.Pause(ctx) },
	})
}

func (a *group) suspendCmd() *cobra.Command {
	return a.turnCmd(turn{
		"suspend", "Move desktops' memory to disk", `Moves the memory of desktops to disk and ends their machines, which then cost
no memory. Resumed, exactly the running programs come back.`,
		func(ctx context.Context, d *client.Desktop) (api.Desktop, error) { return d.Suspend(ctx) },
	})
}

func (a *group) resumeCmd() *cobra.Command {
	return a.turnCmd(turn{
		"resume", "Let paused and suspended desktops go on", `Lets desktops that were paused or suspended go on where they stood.`,
		func(ctx context.Context, d *client.Desktop) (api.Desktop, error) { return d.Resume(ctx) },
	})
}

func (a *group) turnCmd(t turn) *cobra.Command {
	return &cobra.Command{
		Use: t.verb + " D...", Short: t.short,
		Long:    t.long + "\n\nIt tries all of them and ends with the status of the first that failed.",
		Example: "  vmhost " + t.verb + " first\n  vmhost " + t.verb + " $(vmhost ls -q --filter label=team=qa)",
		Args:    command.Args(1, -1), ValidArgsFunction: a.CompleteDesktops(-1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.turn(cmd.Context(), t, given) },
	}
}

func (a *group) turn(ctx context.Context, t turn, refs []string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	turned, status := api.DesktopList{Desktops: []api.Desktop{}}, 0
	for _, ref := range refs {
		info, err := t.do(ctx, c.Desktop(ref))
		switch {
		case err != nil && len(refs) == 1:
			return err
		case err != nil:
			if code := a.Report(ref, err); status == 0 {
				status = code
			}
		default:
			turned.Desktops = append(turned.Desktops, info)
			if !a.JSON {
				fmt.Fprintln(a.Out, ref)
			}
		}
	}
	if err := a.Print(turned, func(io.Writer) {}); err != nil {
		return err
	}
	if status != 0 {
		return command.ExitError(status)
	}
	return nil
}

func (a *group) restoreCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "restore D SNAPSHOT",
		Short: "Put a desktop back to a snapshot",
		Long: `Puts a desktop back, in place, to the instant of a snapshot, and prints its id,
which stays. What it was until now is gone: take a snapshot of that first, or
use create --snapshot for a desktop of its own.`,
		Example: "  vmhost restore first logged-in",
		Args:    command.Args(2, 2), ValidArgsFunction: a.CompleteSnapshots(1, 2),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			info, err := d.Restore(cmd.Context(), given[1])
			if err != nil {
				return err
			}
			return a.Print(info, func(w io.Writer) { fmt.Fprintln(w, info.ID) })
		},
	}
}
