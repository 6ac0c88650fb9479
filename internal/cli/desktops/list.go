package desktops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *group) lsCmd() *cobra.Command {
	var filters []string
	var quiet bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"ps", "list"},
		Short: "List desktops",
		Long: `Lists desktops, newest first. ORIGIN is where the machine came from: cold (it
booted), template or pool (cloned from the image's boot snapshot), fork,
snapshot, resume or restore. MEM is the memory that it has for itself alone.`,
		Example: `  vmhost ls
  vmhost ls --filter label=team=qa --filter state=ready
  vmhost rm -f $(vmhost ls -q)`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), filters, quiet) },
	}
	cmd.Flags().StringArrayVarP(&filters, "filter", "f", nil,
		"label=KEY[=VALUE], state=STATE or name=NAME; may be repeated, all must hold")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids alone")
	return cmd
}

func (a *group) list(ctx context.Context, filters []string, quiet bool) error {
	filter, err := parse.Filter(filters)
	if err != nil {
		return err
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	list, err := c.Desktops().List(ctx, filter)
	if err != nil {
		return err
	}
	return a.Print(api.DesktopList{Desktops: list}, func(w io.Writer) {
		if quiet {
			for _, d := range list {
				fmt.Fprintln(w, d.ID)
			}
			return
		}
		rows := [][]string{{"ID", "NAME", "IMAGE", "STATE", "SHAPE", "DISPLAY", "ORIGIN", "MEM", "AGE", "LABELS"}}
		for _, d := range list {
			rows = append(rows, []string{
				d.ID, d.Name, cmp.Or(d.Image, show.Digest(d.ImageDigest)), string(d.State), d.Shape,
				fmt.Sprintf("%dx%d", d.Display.Width, d.Display.Height), dash(string(d.Origin)), size(d.MemoryPrivate),
				show.Ago(a.Now(), d.Created), labels(d.Labels),
			})
		}
		show.Table(w, rows...)
	})
}

func labels(m map[string]string) string {
	if len(m) == 0 {
		return "-"
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, k+"="+m[k])
	}
	return strings.Join(words, ",")
}

func (a *group) inspectCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect D...",
		Short: "Describe desktops as JSON",
		Example: `  vmhost inspect first
  vmhost inspect first | jq -r .accelerator`,
		Args: command.Args(1, -1), ValidArgsFunction: a.CompleteDesktops(-1),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			list := make([]any, 0, len(given))
			for _, ref := range given {
				d, err := c.Desktops().Get(cmd.Context(), ref)
				if err != nil {
					return err
				}
				list = append(list, d)
			}
			a.JSON = true
			if len(list) == 1 {
				return a.Print(list[0], nil)
			}
			return a.Print(list, nil)
		},
	}
}

func (a *group) rmCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm D...",
		Short: "Remove desktops",
		Long: `Ends desktops and removes what they owned. It tries all of them and ends with
the first error.`,
		Example: `  vmhost rm first
  vmhost rm -f $(vmhost ls -q --filter label=team=qa)`,
		Args: func(cmd *cobra.Command, given []string) error {
			if force {
				return nil // nothing to remove is no error
			}
			return command.Args(1, -1)(cmd, given)
		},
		ValidArgsFunction: a.CompleteDesktops(-1),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.remove(cmd.Context(), given, force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "those that do not exist are no error")
	return cmd
}

func (a *group) remove(ctx context.Context, refs []string, force bool) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	removed := []string{}
	var first error
	for _, ref := range refs {
		err := c.Desktops().Delete(ctx, ref)
		switch {
		case err == nil:
			removed = append(removed, ref)
			if !a.JSON {
				fmt.Fprintln(a.Out, ref)
			}
		case force && errors.Is(err, &api.Error{Code: api.CodeNotFound}):
		case first == nil:
			first = err
		default:
			a.Say("vmhost: %v", err)
		}
	}
	if err := a.Print(map[string][]string{"removed": removed}, func(io.Writer) {}); err != nil {
		return err
	}
	return first
}
