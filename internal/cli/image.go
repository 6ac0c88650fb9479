package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *app) imageCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "List, describe, remove and build images",
		Example: `  vmhost image ls
  vmhost image build images/debian-xfce`,
		Args: args(0, 0),
	}
	cmd.AddCommand(a.imageLs(), a.imageInspect(), a.imageRm())
	if a.Build != nil {
		cmd.AddCommand(a.Build(&a.Globals))
	}
	return cmd
}

func (a *app) imageLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List images", Example: "  vmhost image ls --json",
		Args: args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := c.Images().List(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(api.ImageList{Images: list}, func(w io.Writer) {
				rows := [][]string{{"NAME", "TAGS", "DIGEST", "SIZE", "DISK", "IN USE", "AGE"}}
				for _, i := range list {
					rows = append(rows, []string{
						i.Name, tags(i), short(i.Digest), show.Bytes(i.Size), show.Bytes(i.Virtual),
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

// short is the beginning of a digest, without its algorithm.
func short(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok {
		hex = digest
	}
	return hex[:min(12, len(hex))]
}

func (a *app) imageInspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect IMAGE", Short: "Describe an image as JSON",
		Example: "  vmhost image inspect debian-xfce",
		Args:    args(1, 1), ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			i, err := c.Images().Get(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			a.JSON = true
			return a.print(i, nil)
		},
	}
}

func (a *app) imageRm() *cobra.Command {
	return &cobra.Command{
		Use: "rm IMAGE...", Short: "Remove images that no desktop uses",
		Example: "  vmhost image rm debian-xfce",
		Args:    args(1, -1), ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := a.client()
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
			return a.print(map[string][]string{"removed": given}, func(io.Writer) {})
		},
	}
}
