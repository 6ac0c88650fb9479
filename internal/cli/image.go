package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *app) imageCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "List, describe, seal, remove and build images",
		Example: `  vmhost image ls
  vmhost image seal debian-xfce
  vmhost image build images/debian-xfce`,
		Args: command.Args(0, 0),
	}
	cmd.AddCommand(a.imageLs(), a.imageInspect(), a.imageSeal(), a.imageRm())
	if a.Build != nil {
		cmd.AddCommand(a.Build(&a.Globals))
	}
	return cmd
}

func (a *app) imageLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List images", Example: "  vmhost image ls --json",
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			list, err := c.Images().List(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(api.ImageList{Images: list}, func(w io.Writer) {
				rows := [][]string{{"NAME", "TAGS", "DIGEST", "SIZE", "DISK", "IN USE", "AGE"}}
				for _, i := range list {
					rows = append(rows, []string{
						i.Name, tags(i), show.Digest(i.Digest), show.Bytes(i.Size), show.Bytes(i.Virtual),
						strconv.Itoa(i.InUse), show.Ago(a.Now(), i.Created),
					})
				}
				show.Table(w, rows...)
			})
		},
	}
}

// tags lists an image's tags, without the name that they share.
func tags(i api.Image) string {
	list := make([]string, 0, len(i.Tags))
	for _, t := range i.Tags {
		list = append(list, strings.TrimPrefix(t, i.Name+":"))
	}
	return strings.Join(list, ",")
}

func (a *app) imageInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect IMAGE", Short: "Describe an image as JSON",
		Example: "  vmhost image inspect debian-xfce",
		Args:    command.Args(1, 1), ValidArgsFunction: a.CompleteImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			i, err := c.Images().Get(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			a.JSON = true
			return a.Print(i, nil)
		},
	}
}

func (a *app) imageSeal() *cobra.Command {
	var spec api.SealImage
	cmd := &cobra.Command{
		Use: "seal IMAGE", Short: "Make the boot snapshot that an image's desktops are cloned from",
		Long: `Boots an image in a machine that nobody sees, seals that when it is drawn, and
prints the id of the boot snapshot. It takes a minute or more. The first desktop
of an image and shape does so too: this is for who wants that to be over before.

On a busy host a program that the image keeps ready, such as the browser, may
not have come up in time; inspect, tree and snapshot inspect say so (not_parked),
and --again makes another boot snapshot. Desktops that stand on the old one stay.`,
		Example: `  vmhost image seal debian-xfce
  vmhost image seal debian-xfce --shape large
  vmhost image seal debian-xfce --again`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			a.Say("waiting: a boot snapshot is sealed if there is none that may stay, which takes a minute or more")
			snap, err := c.Images().Seal(cmd.Context(), given[0], spec)
			if err != nil {
				return err
			}
			a.NotParked(snap.NotParked, given[0])
			return a.Print(snap, func(w io.Writer) { fmt.Fprintln(w, snap.ID) })
		},
	}
	cmd.Flags().StringVar(&spec.Shape, "shape", "", "size of the machine: small, medium or large (default medium)")
	cmd.Flags().BoolVar(&spec.Again, "again", false, "make another one, although there is one")
	command.OneOf(cmd, "shape", "small", "medium", "large")
	return cmd
}

func (a *app) imageRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm IMAGE...", Short: "Remove images that no desktop uses",
		Example: "  vmhost image rm debian-xfce",
		Args:    command.Args(1, -1), ValidArgsFunction: a.CompleteImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			for i, ref := range given {
				if err := c.Images().Delete(cmd.Context(), ref); err != nil {
					return err
				}
				if !a.JSON {
					fmt.Fprintln(a.Out, given[i])
				}
			}
			return a.Print(map[string][]string{"removed": given}, func(io.Writer) {})
		},
	}
}
