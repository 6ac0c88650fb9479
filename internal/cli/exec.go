package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// interruptGrace is how long an interrupted program may take to end.
const interruptGrace = 5 * time.Second

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
  id=$(vmhost exec -d first -- make -C /workspace)
  vmhost exec --attach $id first`,
		Args: args(1, -1), ValidArgsFunction: a.completeDesktops(1),
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
		return invalid("--attach takes no program")
	case f.attach != "" && f.detach:
		return invalid("--attach and --detach exclude each other")
	case f.attach == "" && len(f.program) == 0:
		return invalid("name a program to run")
	case f.tty && !f.detach && !terminal:
		return invalid("-t needs a terminal as standard input and output; leave it out in scripts")
	}
	f.spec.Argv = f.program
	if f.shell {
		if len(f.program) != 1 {
			return invalid("--shell takes one line, in quotes")
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
	d, err := a.desktop(f.desktop)
	if err != nil {
		return err
	}
	if f.detach {
		status, err := d.Execs().Start(ctx, f.spec)
		if err != nil {
			return err
		}
		return a.print(status, func(w io.Writer) { fmt.Fprintln(w, status.ID) })
	}
	s := session{a: a, d: d, id: f.attach, tty: f.tty}
	if f.interactive {
		s.in = a.In
	}
	status, err := s.run(ctx, f.spec)
	var gap *client.GapError
	if err != nil && !errors.As(err, &gap) {
		return err
	}
	if a.JSON {
		if err := a.line(status); err != nil {
			return err
		}
	}
	if status.TimedOut {
		a.say("vmhost: the program did not end within %s and was ended", f.timeout)
	}
	if status.ExitCode != 0 {
		return exitError(status.ExitCode)
	}
	return err
}

// session is one attached exec.
type session struct {
	a    *app
	d    *client.Desktop
	id   string // empty: not started yet
	tty  bool
	in   io.Reader
	down atomic.Bool // the link is broken
}

// run starts the exec unless it runs, follows it and returns how it ended.
func (s *session) run(ctx context.Context, spec api.Exec) (api.ExecStatus, error) {
	// An interrupt must reach the program before the link goes.
	link, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	streams := client.Streams{Stdout: s.a.Out, Stderr: s.a.Err, Notify: s.notify}
	if s.a.JSON {
		streams.Stdout = s.a.Err // standard output is the status alone
	}
	if s.id != "" {
		streams.OutFrom, streams.ErrFrom = client.FromKept, client.FromKept
	}
	if s.in != nil {
		streams.Stdin = s.in
	}
	if s.tty {
		if s.in != nil {
			streams.Stdin = &escape{r: s.in, armed: &s.down, leave: leave}
		}
		restore, sizes, err := s.terminal(link, &spec)
		if err != nil {
			return api.ExecStatus{}, err
		}
		defer restore()
		streams.Resize = sizes
	}
	if s.id == "" {
		started, err := s.d.Execs().Start(ctx, spec)
		if err != nil {
			return started, err
		}
		s.id = started.ID
	}
	stop := context.AfterFunc(ctx, func() { s.interrupt(link, leave) })
	defer stop()
	status, err := s.d.Execs().Attach(link, s.id, streams)
	if err != nil && link.Err() != nil {
		s.a.say("vmhost: left exec %s; attach again with: vmhost exec --attach %s %s", s.id, s.id, s.d.Ref())
	}
	return status, err
}

// terminal makes the user's terminal the program's.
func (s *session) terminal(ctx context.Context, spec *api.Exec) (restore func(), _ <-chan client.Size, _ error) {
	undo, err := s.a.Terminal.Raw()
	if err != nil {
		return nil, nil, fmt.Errorf("set up terminal: %w", err)
	}
	sizes := s.a.Terminal.Sizes(ctx)
	select {
	case size := <-sizes:
		spec.Cols, spec.Rows = size.Cols, size.Rows
	case <-time.After(time.Second): // a terminal that does not know its size
	}
	return func() { _ = undo() }, sizes, nil
}

// interrupt hands an interrupt to the program, and leaves when that does not
// end it.
func (s *session) interrupt(ctx context.Context, leave func()) {
	if s.tty {
		leave() // the keyboard's interrupts went the way of all keys
		return
	}
	// Not being able to say so ends in leaving, too.
	_ = s.d.Execs().Signal(ctx, s.id, "INT")
	t := time.NewTimer(interruptGrace)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
		leave()
	}
}

// notify tells of broken links. A raw terminal needs carriage returns.
func (s *session) notify(n client.Notice) {
	end, begin := "\n", ""
	if s.tty {
		end, begin = "\r\n", "\r\n"
	}
	switch {
	case n.Lost != nil:
		s.down.Store(true)
		fmt.Fprintf(s.a.Err, "%svmhost: link lost (%v); attaching again to %s%s", begin, n.Lost, s.id, end)
	case n.Rejoined:
		s.down.Store(false)
		fmt.Fprintf(s.a.Err, "vmhost: attached again%s", end)
	case n.Missing > 0:
		fmt.Fprintf(s.a.Err, "%svmhost: %d bytes of %s are no longer kept%s", begin, n.Missing, n.Stream, end)
	}
}

// escape leaves when Ctrl-C is pressed while the link is down, when nobody else
// would hear it.
type escape struct {
	r     io.Reader
	armed *atomic.Bool
	leave func()
}

func (e *escape) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.armed.Load() {
		for _, b := range p[:n] {
			if b == 3 {
				e.leave()
			}
		}
	}
	return n, err
}
