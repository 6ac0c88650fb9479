package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/attach"
	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

type execFlags struct {
	spec             api.Exec
	env              []string
	interactive, tty bool
	detach, shell    bool
	attach, desktop  string
	timeout          time.Duration
	program          []string
}

func (a *app) execCmd() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] D [--] PROGRAM [ARG]...",
		Short: "Run a program in a desktop",
		Long: `Runs a program as the desktop's user, with its output as it comes, and ends with
its exit status. Flags stand before D.

The program belongs to the desktop, not to this command: when the link drops it
goes on, and the command attaches again at the very byte where it was. An
interrupt (Ctrl-C) is handed to the program; with a terminal (-t) it is a key as
any other. While the link of a terminal is down, Ctrl-C leaves.`,
		Example: `  vmhost exec first -- uname -a
  vmhost exec -it first -- bash
  tar c . | vmhost exec -i first -- tar x -C /workspace
  vmhost exec --shell first 'ls /workspace | wc -l'
  id=$(vmhost exec -d first -- du -h /usr)
  vmhost exec --attach $id first`,
		Args: command.Args(1, -1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			f.desktop, f.program = given[0], program(given[1:])
			return a.exec(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.BoolVarP(&f.interactive, "interactive", "i", false, "send standard input")
	fl.BoolVarP(&f.tty, "tty", "t", false, "give the program a terminal")
	fl.BoolVarP(&f.detach, "detach", "d", false, "print the exec's id and leave it running")
	fl.StringVar(&f.attach, "attach", "", "attach to a running exec by its `id` instead of starting one")
	fl.BoolVar(&f.shell, "shell", false, "run the words as a line of /bin/sh")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "environment as `KEY=VALUE`; may be repeated")
	fl.StringVarP(&f.spec.Dir, "workdir", "w", "", "working `directory` (default: the user's home)")
	fl.StringVarP(&f.spec.User, "user", "u", "", "`user` to run as (default agent)")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the program and its children after a time")
	return cmd
}

// check finds faults of the command line and completes the exec.
func (f *execFlags) check(terminal bool) error {
	switch {
	case f.attach != "" && len(f.program) > 0:
		return command.Invalid("--attach takes no program")
	case f.attach != "" && f.detach:
		return command.Invalid("--attach and --detach exclude each other")
	case f.attach == "" && len(f.program) == 0:
		return command.Invalid("name a program to run")
	case f.tty && !f.detach && !terminal:
		return command.Invalid("-t needs a terminal as standard input and output; leave it out in scripts")
	}
	f.spec.Argv = f.program
	if f.shell {
		if len(f.program) != 1 {
			return command.Invalid("--shell takes one line, in quotes")
		}
		f.spec.Argv, f.spec.Shell = nil, f.program[0]
	}
	f.spec.PTY, f.spec.Stdin, f.spec.TimeoutMS = f.tty, f.interactive, f.timeout.Milliseconds()
	var err error
	f.spec.Env, err = parse.Pairs("env", f.env)
	return err
}

func (a *app) exec(ctx context.Context, f execFlags) error {
	if err := f.check(a.Terminal != nil); err != nil {
		return err
	}
	d, err := a.Desktop(f.desktop)
	if err != nil {
		return err
	}
	if f.detach {
		status, err := d.Execs().Start(ctx, f.spec)
		if err != nil {
			return err
		}
		return a.Print(status, func(w io.Writer) { fmt.Fprintln(w, status.ID) })
	}
	s := attach.Session{Desktop: d, ID: f.attach, Out: a.Out, Err: a.Err}
	if f.interactive {
		s.In = a.In
	}
	if f.tty {
		s.Terminal = a.Terminal
	}
	if a.JSON {
		s.Out = a.Err // standard output is the status alone
	}
	status, err := s.Run(ctx, f.spec)
	var gap *client.GapError
	if err != nil && !errors.As(err, &gap) {
		return err
	}
	if a.JSON {
		if err := a.Line(status); err != nil {
			return err
		}
	}
	if status.TimedOut {
		a.Say("vmhost: the program did not end within %s and was ended", f.timeout)
	}
	if status.ExitCode != 0 {
		return command.ExitError(status.ExitCode)
	}
	return err
}
