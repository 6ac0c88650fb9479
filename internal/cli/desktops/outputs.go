package desktops

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/internal/cli/transfer"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *group) outputsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "outputs", Short: "Look after what runs have published besides their workspaces",
		Example: `  vmhost outputs ls thesis
  vmhost outputs get thesis --into results
  vmhost outputs prune --last 5 --daily 14`,
		Args: command.Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.outputsList(), a.outputsGet(), a.outputsPrune())
	return cmd
}

func (a *group) outputsList() *cobra.Command {
	return &cobra.Command{
		Use: "ls WORKSPACE [OUTPUTS]", Short: "List what the runs of a workspace have published, or the files of one of them",
		Long: `Lists what the runs of a workspace have published besides it and prunes have left,
newest first, whether the daemon still knows the runs or not. With the id of one,
lists its files.`,
		Example: `  vmhost outputs ls thesis`,
		Args:    command.Args(1, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			if len(given) == 1 {
				sets, err := c.Runs().Published(cmd.Context(), given[0])
				if err != nil {
					return err
				}
				return a.Print(api.OutputSetList{Sets: sets}, func(w io.Writer) {
					for _, s := range sets {
						when := "time not known"
						if !s.Published.IsZero() {
							when = s.Published.Format(time.RFC3339)
						}
						fmt.Fprintf(w, "%s  %s\n", s.ID, when)
					}
				})
			}
			files, err := c.Runs().PublishedFiles(cmd.Context(), given[0], given[1])
			if err != nil {
				return err
			}
			return a.Print(api.OutputList{Files: files}, func(w io.Writer) {
				for _, f := range files {
					fmt.Fprintf(w, "%s  %s\n", f.Path, show.Bytes(f.Size))
				}
			})
		},
	}
}

func (a *group) outputsGet() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "get WORKSPACE [OUTPUTS]", Short: "Fetch what a run has published into a directory",
		Long: `Fetches the deliverables that the last run of a workspace has published, or those
of an older one by their id, into a directory, which is made at need. They lie in
the store: no run has to be known for that.`,
		Example: `  vmhost outputs get thesis --into results`,
		Args:    command.Args(1, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			ctx, runs, workspace := cmd.Context(), c.Runs(), given[0]
			id := ""
			if len(given) == 2 {
				id = given[1]
			} else {
				sets, err := runs.Published(ctx, workspace)
				if err != nil {
					return err
				}
				id = sets[0].ID
			}
			files, err := runs.PublishedFiles(ctx, workspace, id)
			if err == nil {
				err = transfer.Outputs(ctx, dir, files, func(ctx context.Context, path string, w io.Writer) error {
					return runs.PublishedFile(ctx, workspace, id, path, w)
				})
			}
			if err != nil {
				return err
			}
			return a.Print(api.OutputList{Files: files}, func(w io.Writer) {
				fmt.Fprintf(w, "%d outputs in %s\n", len(files), dir)
			})
		},
	}
	cmd.Flags().StringVar(&dir, "into", ".", "`directory` to put them into")
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
