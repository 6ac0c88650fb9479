package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/internal/demo"
	"github.com/deskfork/deskfork/pkg/api"
)

func (a *app) demoCmd() *cobra.Command {
	var out, forks string
	var look bool
	cmd := &cobra.Command{
		Use:   "demo D",
		Short: "Show a desktop under control, and five forks of it",
		Long: `Opens a terminal by clicking, types a line, reads the result back by exec, and
saves a picture. Then it signs in to a page once, forks the desktop five ways, does
something else in each child, saves a picture of each and a sheet with all of
them, and removes the children. It may be repeated.

With --look it touches nothing: it saves a picture and says what to try next.`,
		Example: `  vmhost demo first -o screenshot.png --forks forks
  vmhost demo first --forks ''                # the terminal alone
  vmhost demo first --look                    # a desktop that somebody works in`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			if look {
				return a.look(cmd.Context(), given[0], out)
			}
			return a.demo(cmd.Context(), given[0], out, forks)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "screenshot.png", "`file` for the picture")
	cmd.Flags().StringVar(&forks, "forks", "forks", "`directory` for the pictures of the forks; empty: no forks")
	cmd.Flags().BoolVar(&look, "look", false, "touch nothing: save a picture and say what to try next")
	return cmd
}

// demoLimit is ample: a browser that starts under emulation on a busy host.
const demoLimit = 15 * time.Minute

func (a *app) demo(ctx context.Context, ref, out, dir string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	result, err := demo.Run(ctx, c.Desktop(ref), a.Say)
	if err != nil {
		return err
	}
	if err := writePicture(out, result.Picture); err != nil {
		return err
	}
	report := demoReport{File: out, Text: result.Text, Opened: result.Opened}
	var forked demo.Forked
	if dir != "" {
		if forked, err = demo.Forks(ctx, c, c.Desktop(ref), a.Say); err != nil {
			return err
		}
		if report.Forks, err = saveForks(dir, forked); err != nil {
			return err
		}
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	return a.Print(report, func(w io.Writer) {
		if report.Forks != nil {
			tellForks(w, forked, report.Forks)
		}
		fmt.Fprintf(w, "\nThe terminal's picture is in %s.\n", out)
		a.tellNext(w, c.Address(), info, ref)
	})
}

// look is the demonstration's end alone.
func (a *app) look(ctx context.Context, ref, out string) error {
	c, err := a.Client()
	if err != nil {
		return err
	}
	shot, err := c.Desktop(ref).Screenshot(ctx)
	if err != nil {
		return err
	}
	if err := writePicture(out, shot.Data); err != nil {
		return err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	return a.Print(demoReport{File: out}, func(w io.Writer) {
		fmt.Fprintf(w, "A picture of %s is in %s.\n", ref, out)
		a.tellNext(w, c.Address(), info, ref)
	})
}

// tellNext says where the server is and what to try, in words that can be typed as
// this command was.
func (a *app) tellNext(w io.Writer, address string, info api.Info, ref string) {
	call := cmp.Or(a.Program, "vmhost")
	if a.Globals.DataDir != a.Config.DataDir {
		call += " --data-dir " + a.Globals.DataDir
	}
	fmt.Fprintf(w, "API:   %[1]s   (described at %[1]s/docs)\nToken: %[2]s\n", address, a.tokenPlace())
	if info.Accelerator == "tcg" {
		fmt.Fprintf(w, "Speed: software emulation, several times slower than KVM: %s doctor says why, and what mends it\n", call)
	}
	fmt.Fprintf(w, `
Try next:
  %[1]s exec -it %[2]s -- bash
  %[1]s screenshot %[2]s -o screen.png
  %[1]s fork %[2]s -n 3 --name try
  %[1]s snapshot %[2]s signed-in && %[1]s create --snapshot signed-in --name again
  %[1]s tree
`, call, ref)
}

// demoReport is what --json prints.
type demoReport struct {
	File   string       `json:"file"`
	Text   string       `json:"text"`
	Opened bool         `json:"opened"`
	Forks  *forksReport `json:"forks,omitempty"`
}

type forksReport struct {
	Sheet    string       `json:"sheet"`
	PauseMS  float64      `json:"pause_ms"`
	SignMS   int64        `json:"sign_in_ms"`
	UsableMS int64        `json:"usable_ms"` // of the last child, since the call to fork
	TookMS   int64        `json:"took_ms"`
	Parent   forkReport   `json:"parent"`
	Children []forkReport `json:"children"`
}

type forkReport struct {
	Name          string `json:"name"`
	Task          string `json:"task"`
	Proof         string `json:"proof"`
	File          string `json:"file"`
	UsableMS      int64  `json:"usable_ms,omitempty"`
	MemoryPrivate int64  `json:"memory_private_bytes"`
	MemoryShared  int64  `json:"memory_shared_bytes"`
	DiskPrivate   int64  `json:"disk_private_bytes"`
}

// saveForks writes the pictures into a directory.
func saveForks(dir string, f demo.Forked) (*forksReport, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory for pictures: %w", err)
	}
	r := &forksReport{
		Sheet: filepath.Join(dir, "sheet.png"), PauseMS: float64(f.Pause.Microseconds()) / 1000,
		SignMS: f.Sign.Milliseconds(), UsableMS: f.Usable.Milliseconds(), TookMS: f.Took.Milliseconds(),
	}
	save := func(d demo.Fork) (forkReport, error) {
		out := forkReport{
			Name: d.Name, Task: d.Task, Proof: d.Proof, File: filepath.Join(dir, d.File+".png"), UsableMS: d.Usable.Milliseconds(),
			MemoryPrivate: d.Node.MemoryPrivate, MemoryShared: d.Node.MemoryShared, DiskPrivate: d.Node.DiskPrivate,
		}
		return out, writePicture(out.File, d.Picture)
	}
	var err error
	if r.Parent, err = save(f.Parent); err != nil {
		return nil, err
	}
	for _, c := range f.Children {
		child, err := save(c)
		if err != nil {
			return nil, err
		}
		r.Children = append(r.Children, child)
	}
	return r, writePicture(r.Sheet, f.Sheet)
}

// tellForks draws the tree with what each has done and takes.
func tellForks(w io.Writer, f demo.Forked, r *forksReport) {
	sign := "was signed in already"
	if f.SignedIn {
		sign = fmt.Sprintf("signed in once, in %.1f s", f.Sign.Seconds())
	}
	fmt.Fprintf(w, `
%s %s. For the fork it stood still for %.0f ms; the last of %d children
was usable %.1f s after the call. All of it took %.0f s.

`, f.Parent.Name, sign, r.PauseMS, len(f.Children), f.Usable.Seconds(), f.Took.Seconds())
	rows := [][]string{{"NAME", "DID", "READ BACK BY EXEC", "USABLE", "MEMORY PRIVATE", "SHARED", "DISK PRIVATE"}}
	row := func(lines, usable, did string, d forkReport) {
		rows = append(rows, []string{
			lines + d.Name, did, d.Proof, usable,
			show.Bytes(d.MemoryPrivate), show.Bytes(d.MemoryShared), show.Bytes(d.DiskPrivate),
		})
	}
	row("", "-", "signed in", r.Parent)
	for i, d := range r.Children {
		lines := "├─ "
		if i == len(r.Children)-1 {
			lines = "└─ "
		}
		row(lines, fmt.Sprintf("%.1f s", f.Children[i].Usable.Seconds()), d.Task, d)
	}
	show.Table(w, rows...)
	fmt.Fprintf(w, "\nThe children are removed again; %s goes on.\nAll screens on one sheet: %s; each of them beside it.\n", f.Parent.Name, r.Sheet)
}
