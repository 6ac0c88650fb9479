package desktops

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func (a *group) workspaceCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workspace",
		Short: "Keep the files in /workspace over the end of desktops",
		Long: `A workspace W is what lies at /workspace. A checkpoint of it is that disk at one
instant, in the server's blob store; the newest one published counts. A desktop
begins with one by create --workspace W, or W@CHECKPOINT, and publishes the next.

What a desktop does not go on from it does not publish over, unless told to.`,
		Example: `  vmhost workspace checkpoint first thesis
  vmhost workspace log thesis
  vmhost workspace restore thesis --name again
  vmhost workspace clone thesis attempt
  vmhost workspace diff thesis attempt
  vmhost workspace export thesis -o thesis.tar`,
		Args: command.Args(0, 0), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.workspaceLs(), a.workspaceLog(), a.workspaceCheckpoint(), a.workspaceRestore(), a.workspaceClone(),
		a.workspaceDiff(), a.workspaceExport(), a.workspaceImport(), a.workspacePrune(), a.workspaceVerify())
	return cmd
}

func (a *group) workspaceLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List workspaces and the checkpoint that each is at",
		Example: "  vmhost workspace ls", Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			list, err := c.Workspaces().List(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(api.WorkspaceList{Workspaces: list}, func(w io.Writer) {
				rows := [][]string{{"NAME", "ID", "PUBLISHED", "AGE"}}
				for _, one := range list {
					rows = append(rows, []string{one.Name, one.ID, dash(one.Published), show.Ago(a.Now(), one.Created)})
				}
				show.Table(w, rows...)
			})
		},
	}
}

func (a *group) workspaceLog() *cobra.Command {
	return &cobra.Command{
		Use: "log W", Short: "List what was published in a workspace, newest first",
		Long: `Lists checkpoints, newest first. USED is what the disk holds, ADDED what came into
the store with it. FROZEN says for how long writes in the guest waited.`,
		Example: "  vmhost workspace log thesis", Args: command.Args(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			list, err := c.Workspaces().Log(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return a.Print(api.CheckpointList{Checkpoints: list}, func(w io.Writer) {
				rows := [][]string{{"CHECKPOINT", "PARENT", "DESKTOP", "USED", "ADDED", "FROZEN", "AGE"}}
				for _, one := range list {
					frozen := "no"
					if one.Frozen {
						frozen = strconv.FormatFloat(one.FrozenMS, 'f', 0, 64) + " ms"
					}
					rows = append(rows, []string{
						one.Ref, dash(one.Parent), dash(one.Desktop), show.Bytes(one.Used), show.Bytes(one.Added), frozen, show.Ago(a.Now(), one.Created),
					})
				}
				show.Table(w, rows...)
			})
		},
	}
}

func (a *group) workspaceCheckpoint() *cobra.Command {
	var req api.CreateCheckpoint
	cmd := &cobra.Command{
		Use: "checkpoint D [W]", Short: "Publish a desktop's /workspace as it is now, and print the checkpoint",
		Long: `Publishes a desktop's /workspace as it is now in a workspace, which is made at
need; the default is the one that the desktop began with, or published in last. A
fork, and what was created from a snapshot, has none at first: it goes on from the
checkpoint of its parent, and says where to. The guest's file system stands still
for a moment.`,
		Example: `  vmhost workspace checkpoint first thesis
  vmhost workspace checkpoint first`,
		Args: command.Args(1, 2), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			if len(given) > 1 {
				req.Workspace = given[1]
			}
			made, err := d.Checkpoint(cmd.Context(), req)
			if err != nil {
				return err
			}
			return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, made.Ref) })
		},
	}
	cmd.Flags().BoolVar(&req.Replace, "replace", false, "publish even over what this desktop does not go on from")
	return cmd
}

func (a *group) workspaceRestore() *cobra.Command {
	f := createFlags{count: 1}
	cmd := &cobra.Command{
		Use: "restore W[@CHECKPOINT] [IMAGE]", Short: "Create a desktop that begins with a workspace, and print its id",
		Long: `Is create --workspace. All of the checkpoint is verified before the desktop starts;
when anything is missing or damaged nothing starts, and the object is named.`,
		Example: "  vmhost workspace restore thesis --name again",
		Args:    command.Args(1, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			f.spec.Workspace, f.spec.Image = given[0], defaultImage
			if len(given) > 1 {
				f.spec.Image = given[1]
			}
			return a.create(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.spec.Name, "name", "", "`name` of the desktop (default: made up)")
	f.policy.flags(cmd)
	f.waiting.flags(cmd.Flags())
	return cmd
}

func (a *group) workspaceClone() *cobra.Command {
	var req api.CloneWorkspace
	cmd := &cobra.Command{
		Use: "clone W NAME", Short: "Make a workspace that begins with what another one is at; nothing is copied",
		Example: "  vmhost workspace clone thesis attempt",
		Args:    command.Args(2, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			req.Name = given[1]
			made, err := c.Workspaces().Clone(cmd.Context(), given[0], req)
			if err != nil {
				return err
			}
			return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, made.ID) })
		},
	}
	cmd.Flags().StringVar(&req.Checkpoint, "checkpoint", "", "`checkpoint` of it to begin with (default: what it is at)")
	return cmd
}

func (a *group) workspacePrune() *cobra.Command {
	var req api.PruneWorkspaces
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove checkpoints that are not to be kept, of all projects",
		Long: `Removes checkpoints that no flag keeps, and what was never published. Without flags
every published one stays. What a workspace is at always stays, and so does what a
restore or a checkpoint in progress needs. It needs an administrator's token.`,
		Example: `  vmhost workspace prune --last 5 --daily 14 --dry-run
  vmhost workspace prune --last 5 --daily 14`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			p, err := c.Workspaces().Prune(cmd.Context(), req)
			if err != nil {
				return err
			}
			return a.Print(p, func(w io.Writer) {
				for _, ref := range p.Dropped {
					fmt.Fprintln(w, ref)
				}
				fmt.Fprintf(w, "%d kept, %d dropped, %d spared; %s in %d objects\n", p.Kept, len(p.Dropped), len(p.Spared), show.Bytes(p.Bytes), p.Packs)
			})
		},
	}
	command.Retention(cmd, &req)
	return cmd
}

func (a *group) workspaceVerify() *cobra.Command {
	return &cobra.Command{
		Use: "verify W[@CHECKPOINT]...", Short: "Read checkpoints in the store, and name what is missing or damaged",
		Example: "  vmhost workspace verify thesis",
		Args:    command.Args(1, -1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			return a.verify(cmd, c, given)
		},
	}
}

// verify fails when anything is damaged, after it has said all.
func (a *group) verify(cmd *cobra.Command, c *client.Client, words []string) error {
	var all []api.Verified
	bad := 0
	for _, word := range words {
		v, err := c.Workspaces().Verify(cmd.Context(), word)
		if err != nil {
			return err
		}
		all, bad = append(all, v), bad+len(v.Damaged)
	}
	err := a.Print(all, func(w io.Writer) {
		for _, v := range all {
			if v.OK {
				fmt.Fprintln(w, v.Ref+": whole")
			}
			for _, d := range v.Damaged {
				fmt.Fprintln(w, v.Ref+": "+d)
			}
		}
	})
	if err == nil && bad > 0 {
		err = api.Errorf(api.CodeImageCorrupt, "%d objects are missing or damaged", bad)
	}
	return err
}
