package desktops

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *group) snapshotCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot D NAME",
		Short: "Keep desktops as they are, and list, move and remove what was kept",
		Long: `Keeps the present instant of a desktop under a name: memory, screen, running
programs and disks. The desktop goes on. It is short for snapshot create, which
a desktop with the name of one of the commands below needs.

A snapshot stays over restarts of the daemon and of the host, and when its
desktop is removed. From it, create --snapshot makes desktops and restore puts
one back.`,
		Example: `  vmhost snapshot first logged-in
  vmhost create --snapshot logged-in -n 3
  vmhost restore first logged-in
  vmhost snapshot ls
  vmhost snapshot export logged-in - | ssh other vmhost snapshot import - logged-in`,
		Args: command.Args(0, 2), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return cmd.Help()
			}
			if err := command.Args(2, 2)(cmd, given); err != nil {
				return err
			}
			return a.snapshot(cmd.Context(), given[0], given[1])
		},
	}
	cmd.AddCommand(a.snapshotCreate(), a.snapshotLs(), a.snapshotInspect(), a.snapshotRm(),
		a.snapshotExport(), a.snapshotImport(), a.snapshotExports())
	return cmd
}

func (a *group) snapshotCreate() *cobra.Command {
	return &cobra.Command{
		Use: "create D NAME", Short: "Keep a desktop as it is under a name, and print the snapshot's id",
		Example: "  vmhost snapshot create first logged-in",
		Args:    command.Args(2, 2), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.snapshot(cmd.Context(), given[0], given[1]) },
	}
}

func (a *group) snapshot(ctx context.Context, ref, name string) error {
	d, err := a.Desktop(ref)
	if err != nil {
		return err
	}
	made, err := d.Snapshot(ctx, name)
	if err != nil {
		return err
	}
	return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, made.ID) })
}

func (a *group) snapshotLs() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List snapshots",
		Long: `Lists snapshots, newest first. MEMORY and DISK are what a snapshot holds beyond
what it stands on.`,
		Example: `  vmhost snapshot ls
  vmhost snapshot rm $(vmhost snapshot ls -q)`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listSnapshots(cmd.Context(), quiet) },
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids alone")
	return cmd
}

func (a *group) listSnapshots(ctx context.Context, quiet bool) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	list, err := c.Snapshots().List(ctx)
	if err != nil {
		return err
	}
	return a.Print(api.SnapshotList{Snapshots: list}, func(w io.Writer) {
		if quiet {
			for _, s := range list {
				fmt.Fprintln(w, s.ID)
			}
			return
		}
		rows := [][]string{{"ID", "NAME", "KIND", "DESKTOP", "IMAGE", "SHAPE", "MEMORY", "DISK", "USED BY", "AGE"}}
		for _, s := range list {
			rows = append(rows, []string{
				s.ID, dash(s.Name), s.Kind, dash(s.Desktop), show.Digest(s.ImageDigest), s.Shape,
				show.Bytes(s.MemoryBytes + s.StateBytes), show.Bytes(s.DiskBytes), strconv.Itoa(s.UsedBy), show.Ago(a.Now(), s.Created),
			})
		}
		show.Table(w, rows...)
	})
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *group) snapshotInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect SNAPSHOT", Short: "Describe a snapshot as JSON",
		Example: "  vmhost snapshot inspect logged-in",
		Args:    command.Args(1, 1), ValidArgsFunction: a.CompleteSnapshots(0, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			s, err := c.Snapshots().Get(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			a.JSON = true
			return a.Print(s, nil)
		},
	}
}

func (a *group) snapshotRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm SNAPSHOT|blob:EXPORT...", Short: "Remove snapshots",
		Long: `Removes snapshots. Desktops that stand on one are not harmed. blob:EXPORT is one
in the blob store.`,
		Example: `  vmhost snapshot rm logged-in
  vmhost snapshot rm blob:logged-in`,
		Args: command.Args(1, -1), ValidArgsFunction: a.CompleteSnapshots(0, -1),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			for _, ref := range given {
				remove := c.Snapshots().Remove
				export, stored := strings.CutPrefix(ref, inStore)
				if stored {
					remove = c.Snapshots().RemoveStored
				}
				if err := remove(cmd.Context(), export); err != nil {
					return err
				}
				if !a.JSON {
					fmt.Fprintln(a.Out, ref)
				}
			}
			return a.Print(map[string][]string{"removed": given}, func(io.Writer) {})
		},
	}
}
