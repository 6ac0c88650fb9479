package desktops

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

// aside says who reads and writes files for these commands.
const aside = `The server never reads the file system in a workspace itself: the guest of a
desktop does, which has no network, lives as long as the command and is removed
whatever happens. It takes the room of a desktop, and as long as one to start.`

func (a *group) imageFlag(f *pflag.FlagSet, image *string) {
	f.StringVar(image, "image", defaultImage, "`image` of that desktop; it has GNU tar")
}

// patience says on a terminal why nothing comes yet.
func (a *group) patience(what string) {
	if a.Progress {
		a.Say("waiting: a desktop starts to %s", what)
	}
}

func (a *group) workspaceDiff() *cobra.Command {
	var image string
	cmd := &cobra.Command{
		Use: "diff A[@CHECKPOINT] B[@CHECKPOINT]", Short: "Tell the files of two checkpoints apart",
		Long: `Prints each file that is not the same in A and B, sorted by name: added, removed,
or changed, and then what: kind, content, link, device, mode, owner, time or
attributes. Contents are compared whole. With --json it is one object a line.

` + aside,
		Example: `  vmhost workspace diff thesis attempt
  vmhost workspace diff thesis@cabc123 thesis
  vmhost workspace diff thesis attempt --json | jq -r 'select(.change == "added").path'`,
		Args: command.Args(2, 2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.diff(cmd.Context(), given[0], given[1], image)
		},
	}
	a.imageFlag(cmd.Flags(), &image)
	return cmd
}

func (a *group) diff(ctx context.Context, before, after, image string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	a.patience("compare the files")
	for f, err := range c.Workspaces().Diff(ctx, before, after, image) {
		if err == nil && a.JSON {
			err = a.Line(f)
		} else if err == nil {
			_, err = fmt.Fprintln(a.Out, differenceLine(f))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func differenceLine(f api.FileDifference) string {
	line := fmt.Sprintf("%-8s %s", f.Change, f.Path)
	if f.Kind == "dir" && f.Path != "." {
		line += "/"
	}
	if len(f.Fields) > 0 {
		line += " (" + strings.Join(f.Fields, ", ") + ")"
	}
	return show.Plain(line)
}

func (a *group) workspaceExport() *cobra.Command {
	var image, file string
	cmd := &cobra.Command{
		Use: "export W[@CHECKPOINT] -o FILE", Short: "Write the files of a checkpoint to a tar file",
		Long: `Writes the files of a checkpoint as tar in POSIX's format, sorted by name: owners,
modes, times, extended attributes, ACLs, links, devices and holes as they are.
Sockets are left out. - is standard output. The file appears when it is whole, and
only its owner may read it.

` + aside,
		Example: `  vmhost workspace export thesis -o thesis.tar
  vmhost workspace export thesis@cabc123 -o - | tar -tv
  vmhost workspace export thesis -o - | ssh other vmhost workspace import - thesis`,
		Args: command.Args(1, 1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.exportFiles(cmd.Context(), given[0], image, file)
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; - is standard output")
	a.imageFlag(cmd.Flags(), &image)
	return cmd
}

func (a *group) exportFiles(ctx context.Context, word, image, file string) error {
	switch {
	case file == stdio && a.Terminal != nil:
		return command.Invalid("standard output is a terminal; name a file or write to a pipe")
	case file == "":
		return command.Invalid("name the file to write with -o; - is standard output")
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	a.patience("read the files")
	write := func(w io.Writer) error { return c.Workspaces().Export(ctx, word, image, w) }
	if file == stdio {
		return a.stream().Write(a.Out, write)
	}
	if err := a.stream().Save(file, write); err != nil {
		return err
	}
	return a.Print(map[string]string{"file": file}, func(w io.Writer) { fmt.Fprintln(w, file) })
}

func (a *group) workspaceImport() *cobra.Command {
	var req api.ImportWorkspace
	var size string
	cmd := &cobra.Command{
		Use: "import FILE W", Short: "Publish the files of a tar file in a workspace, and print the checkpoint",
		Long: `Publishes the files of a tar that is not compressed in a workspace, which is made at
need; - is standard input. They are all that the checkpoint holds. A workspace that
has one already keeps it unless it is to be replaced. Nothing is published unless
all has come and was written: owners, modes, times, extended attributes, ACLs,
links, devices and holes as they are.

` + aside,
		Example: `  vmhost workspace import thesis.tar thesis
  zstd -dc thesis.tar.zst | vmhost workspace import - thesis --size 20G
  tar -C ~/thesis -c . | vmhost workspace import - thesis --replace`,
		Args: command.Args(2, 2),
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, given []string) (err error) {
			if size != "" {
				if req.SizeMiB, err = parse.MiB(size); err != nil {
					return err
				}
			}
			return a.importFiles(cmd.Context(), given[0], given[1], req)
		},
	}
	f := cmd.Flags()
	f.StringVar(&size, "size", "", "`size` of the workspace's disk, such as 20G (default 10G)")
	f.BoolVar(&req.Replace, "replace", false, "publish even over what the workspace is at")
	a.imageFlag(f, &req.Image)
	return cmd
}

func (a *group) importFiles(ctx context.Context, file, name string, req api.ImportWorkspace) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	var made api.Checkpoint
	read := func(r io.Reader) (err error) {
		a.patience("write the files")
		made, err = c.Workspaces().Import(ctx, name, req, r)
		return err
	}
	if err := a.takeIn(file, read); err != nil {
		return err
	}
	return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, made.Ref) })
}
