package desktops

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/internal/cli/transfer"
	"github.com/deskfork/deskfork/pkg/api"
)

// stdio names standard input or output.
const stdio = "-"

// inStore begins the name of an export in the blob store.
const inStore = "blob:"

func (a *group) snapshotExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export SNAPSHOT FILE|blob:NAME",
		Short: "Write a snapshot to one file or to the blob store",
		Long: `Writes a snapshot with all that it stands on, except its image, to one file,
compressed with zstd; - is standard output. The file appears when it is whole.

It holds the memory of the desktop, and with it every secret that its programs
know: only its owner may read it.

With blob:NAME the host keeps it in its blob store, encrypted, where other hosts
with the same store and key find it: snapshot exports lists what is there. That
needs a host that was started with --blob-key.`,
		Example: `  vmhost snapshot export logged-in logged-in.zst
  vmhost snapshot export logged-in blob:logged-in
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
	if name, ok := strings.CutPrefix(file, inStore); ok {
		made, err := c.Snapshots().Store(ctx, ref, name)
		if err != nil {
			return err
		}
		return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, inStore+made.Name) })
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
		Use:   "import FILE|blob:EXPORT NAME",
		Short: "Keep an exported snapshot under a name, and print its id",
		Long: `Reads a file that export wrote, here or on another host; - is standard input,
and blob:EXPORT one in the host's blob store.

This host needs the snapshot's image, and the same version of QEMU and class of
processors. All of it is verified before it is listed.`,
		Example: `  vmhost snapshot import logged-in.zst logged-in
  vmhost snapshot import blob:logged-in logged-in`,
		Args: command.Args(2, 2),
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
	if export, ok := strings.CutPrefix(file, inStore); ok {
		made, err := c.Snapshots().Fetch(ctx, export, name)
		if err != nil {
			return err
		}
		return a.Print(made, func(w io.Writer) { fmt.Fprintln(w, made.ID) })
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

func (a *group) snapshotExports() *cobra.Command {
	return &cobra.Command{
		Use: "exports", Short: "List the snapshots in the blob store",
		Long: `Lists the snapshots that export has put into the blob store, from this host or
from others with the same store and key. SIZE is compressed.`,
		Example: `  vmhost snapshot exports
  vmhost snapshot rm blob:logged-in`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listExports(cmd.Context()) },
	}
}

func (a *group) listExports(ctx context.Context) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	list, err := c.Snapshots().Stored(ctx)
	if err != nil {
		return err
	}
	return a.Print(api.SnapshotExportList{Exports: list}, func(w io.Writer) {
		rows := [][]string{{"NAME", "SNAPSHOT", "IMAGE", "SHAPE", "SIZE", "AGE"}}
		for _, e := range list {
			if e.Fault != "" {
				rows = append(rows, []string{inStore + e.Name, e.Fault})
				continue
			}
			rows = append(rows, []string{
				inStore + e.Name, dash(e.Snapshot), show.Digest(e.ImageDigest), e.Shape, show.Bytes(e.Bytes), show.Ago(a.Now(), e.Created),
			})
		}
		show.Table(w, rows...)
	})
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
