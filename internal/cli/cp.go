package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/transfer"
)

func (a *app) cpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files to and from a desktop",
		Long: `Copies a file or a directory between this machine and a desktop; one side is
D:PATH. Modes are kept, owners are not.

The rules are those of docker cp. When DST is an existing directory, SRC is put
into it; else DST is the new name. A directory SRC that ends with /. means its
content. DST with a / at its end must be a directory, and the directory above
DST must exist.

A - is standard input or output. From a desktop, a file comes as its bytes and a
directory as tar. To a desktop, the input becomes the file DST; when DST is a
directory or ends with /, the input is tar and is unpacked there.`,
		Example: `  vmhost cp notes.txt first:/workspace/
  vmhost cp first:/workspace/report.pdf .
  vmhost cp ./site/. first:/workspace/site
  vmhost cp first:/etc/hostname -
  tar c src | vmhost cp - first:/workspace/
  echo hello | vmhost cp - first:/tmp/hello.txt`,
		Args: command.Args(2, 2), ValidArgsFunction: a.completeCopy,
		RunE: func(cmd *cobra.Command, given []string) error {
			src, err := parse.Parse(given[0])
			if err != nil {
				return err
			}
			dst, err := parse.Parse(given[1])
			if err != nil {
				return err
			}
			return a.copyFiles(cmd.Context(), src, dst)
		},
	}
}

// completeCopy completes D: and local files.
func (a *app) completeCopy(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(prefix, "/.:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	names := a.Names(cmd.Context(), prefix)
	for i := range names {
		names[i] += ":"
	}
	return names, cobra.ShellCompDirectiveNoSpace
}

func (a *app) copyFiles(ctx context.Context, src, dst parse.Target) error {
	switch {
	case src.Remote() && dst.Remote():
		return command.Invalid("both sides are desktops; write: vmhost cp %s:%s - | vmhost cp - %s:%s",
			src.Desktop, src.Path, dst.Desktop, dst.Path)
	case !src.Remote() && !dst.Remote():
		return command.Invalid("neither side is a desktop; write D:PATH for one of them")
	}
	d, err := a.Desktop(src.Desktop + dst.Desktop)
	if err != nil {
		return err
	}
	c := transfer.Copy{Files: d.Files()}
	if a.Progress {
		c.Progress, c.Now = a.Err, a.Now
	}
	switch {
	case src.Stdio():
		return c.FromInput(ctx, a.In, dst.Path)
	case dst.Stdio():
		return c.ToOutput(ctx, src.Path, a.Out)
	case dst.Remote():
		return c.Upload(ctx, src.Path, dst.Path)
	default:
		return c.Download(ctx, src.Path, dst.Path)
	}
}
