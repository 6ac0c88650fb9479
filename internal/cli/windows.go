package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// windowOps are the changes of a window, with the numbers that each takes.
func windowOps() map[string]int {
	return map[string]int{"focus": 0, "close": 0, "maximize": 0, "minimize": 0, "restore": 0, "move": 2, "resize": 2}
}

func (a *app) windowsCmd() *cobra.Command {
	var who control
	cmd := &cobra.Command{
		Use:   "windows D [OP ID [NUMBER]...]",
		Short: "List or change windows",
		Long: `Lists the windows of a desktop, bottom of the stack first, or changes one:
focus, close, maximize, minimize, restore, move ID X Y, resize ID WIDTH HEIGHT.`,
		Example: `  vmhost windows first
  vmhost windows first focus 33554435
  vmhost windows first move 33554435 0 0
  vmhost windows first resize 33554435 800 600`,
		Args: command.Args(1, 5),
		ValidArgsFunction: func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 1 {
				return []string{"focus", "close", "maximize", "minimize", "restore", "move", "resize"}, cobra.ShellCompDirectiveNoFileComp
			}
			return a.CompleteDesktops(1)(cmd, given, prefix)
		},
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.Desktop(given[0], who.option())
			if err != nil {
				return err
			}
			if len(given) > 1 {
				return changeWindow(cmd.Context(), d, given[1], given[2:])
			}
			list, err := d.Windows().List(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(api.WindowList{Windows: list}, func(w io.Writer) { windowTable(w, list) })
		},
	}
	who.flags(cmd)
	return cmd
}

func windowTable(w io.Writer, list []api.Window) {
	rows := [][]string{{"ID", "TYPE", "STATE", "X", "Y", "SIZE", "CLASS", "TITLE"}}
	for _, win := range list {
		state := "-"
		switch {
		case win.Minimized:
			state = "minimized"
		case win.Active:
			state = "active"
		case win.Maximized:
			state = "maximized"
		}
		rows = append(rows, []string{
			strconv.FormatUint(win.ID, 10), win.Type, state, strconv.Itoa(win.X), strconv.Itoa(win.Y),
			fmt.Sprintf("%dx%d", win.Width, win.Height), win.Class, win.Title,
		})
	}
	show.Table(w, rows...)
}

func changeWindow(ctx context.Context, d *client.Desktop, op string, words []string) error {
	n, known := windowOps()[op]
	if !known {
		return command.Invalid("%q is none of focus, close, maximize, minimize, restore, move and resize", op)
	}
	if len(words) != n+1 {
		return command.Invalid("%s takes the id of a window and %d numbers", op, n)
	}
	id, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return command.Invalid("%q is not the id of a window; see vmhost windows %s", words[0], d.Ref())
	}
	v, err := parse.Ints(words[1:]...)
	if err != nil {
		return err
	}
	change := api.WindowOp{Op: op}
	switch op {
	case "move":
		change.X, change.Y = v[0], v[1]
	case "resize":
		change.Width, change.Height = v[0], v[1]
	}
	return d.Windows().Do(ctx, id, change)
}

func (a *app) launchCmd() *cobra.Command {
	var url, dir string
	var env []string
	cmd := &cobra.Command{
		Use:   "launch D [-- PROGRAM [ARG]...]",
		Short: "Start a program in the desktop's session",
		Long: `Starts a program with windows, or with --url the browser, in the desktop's
session, and prints its process id. It goes on by itself; for output and exit
status use exec.`,
		Example: `  vmhost launch first -- mousepad /workspace/notes.txt
  vmhost launch first --url https://example.org`,
		Args: command.Args(1, -1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			what := api.Launch{URL: url, Dir: dir, Argv: program(given[1:])}
			if (len(what.Argv) == 0) == (url == "") {
				return command.Invalid("name a program or an --url, one of them")
			}
			var err error
			if what.Env, err = parse.Pairs("env", env); err != nil {
				return err
			}
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			pid, err := d.Launch(cmd.Context(), what)
			if err != nil {
				return err
			}
			return a.Print(api.Launched{PID: pid}, func(w io.Writer) { fmt.Fprintln(w, pid) })
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "`URL` to open in the default browser")
	cmd.Flags().StringVarP(&dir, "workdir", "w", "", "working `directory`")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "environment as `KEY=VALUE`; may be repeated")
	return cmd
}

// program drops the -- between a desktop and a program.
func program(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}
