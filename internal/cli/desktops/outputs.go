package desktops

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *group) outputsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "outputs", Short: "Look after what runs have published besides their workspaces",
		Example: `  vmhost outputs prune --last 5 --daily 14`,
		Args:    command.Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.outputsPrune())
	return cmd
}

func (a *group) outputsPrune() *cobra.Command {
	var req api.PruneWorkspaces
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove outputs of runs that are not to be kept, of all projects",
		Long: `Removes outputs of runs that no flag keeps, what was stored and never published,
and uploaded inputs that no run needs. Without flags all that was published stays.
What a workspace has published last always stays, and so does what a run or a
download in progress needs, and what is younger than a day. It needs an
administrator's token.`,
		Example: `  vmhost outputs prune --last 5 --daily 14 --dry-run
  vmhost outputs prune --last 5 --daily 14`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			p, err := c.Runs().Prune(cmd.Context(), api.PruneOutputs(req))
			if err != nil {
				return err
			}
			return a.Print(p, func(w io.Writer) {
				for _, set := range p.Dropped {
					fmt.Fprintln(w, set)
				}
				fmt.Fprintf(w, "%d kept, %d dropped, %d spared; %d inputs; %s in %d objects\n", p.Kept, len(p.Dropped), len(p.Spared), p.Inputs, show.Bytes(p.Bytes), p.Objects)
			})
		},
	}
	command.Retention(cmd, &req)
	return cmd
}
