package desktops

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/transfer"
	"github.com/deskfork/deskfork/pkg/api"
)

// stdio names standard input or output.
const stdio = "-"

func (a *group) snapshotExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export SNAPSHOT FILE",
		Short: "Write a snapshot to one file",
		Long: `Writes a snapshot with all that it stands on, except its image, to one file,
compressed with zstd; - is standard output. The file appears when it is whole.

It holds the memory of the desktop, and with it every secret that its programs
know: only its owner may read it.`,
		Example: `  vmhost snapshot export logged-in logged-in.zst
  vmhost snapshot export logged-in - | ssh other vmhost snapshot import - logged-in`,
		Args: command.Args(2, 2),
		ValidArgsFunction: func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.CompleteSnapshots(0, 1)(cmd, given, prefix)
		},
		RunE: func(cmd *cobra.Command, given []string) error { return a.export(cmd.Context(), given[0], given[1]) },
	}
}

func (a *group) export(ctx context.Context, ref, file string) error {
	if file == stdio && a.Terminal != nil {
		return command.Invalid("standard output is a terminal; name a file or write to a pipe")
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return c.Snapshots().Export(ctx, ref, w) }
	if file == stdio {
		return a.stream().Write(a.Out, write)
	}
	if err := a.stream().Save(file, write); err != nil {
		return err
	}
	return a.Print(map[string]string{"file": file}, func(w io.Writer) { fmt.Fprintln(w, file) })
}

func (a *group) snapshotImport() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE NAME",
		Short: "Keep an exported snapshot under a name, and print its id",
		Long: `Reads a file that export wrote, here or on another host; - is standard input.
This host needs the snapshot's image, and the same version of QEMU and class of
processors. All of it is verified before it is listed.`,
		Example: `  vmhost snapshot import logged-in.zst logged-in`,
		Args:    command.Args(2, 2),
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, given []string) error { return a.load(cmd.Context(), given[0], given[1]) },
	}
}

func (a *group) load(ctx context.Context, file, name string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	var made api.Snapshot
	read := func(r io.Reader) (err error) {
		made, err = c.Snapshots().Import(ctx, name, r)
		return err
	}
	if err := a.takeIn(file, read); err != nil {
		return err
	}
	return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, made.ID) })
}

// takeIn has a file, or standard input, read by whoever takes it in.
func (a *group) takeIn(file string, read func(io.Reader) error) error {
	if file == stdio {
		return a.stream().Read(a.In, read)
	}
	return a.stream().Load(file, read)
}

// stream shows how far a stream is where that can be seen.
func (a *group) stream() transfer.Stream {
	if !a.Progress {
		return transfer.Stream{}
	}
	return transfer.Stream{Progress: a.Err, Now: a.Now}
}
