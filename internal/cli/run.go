package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/transfer"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// maxInput is how much standard input a run takes, in bytes.
const maxInput = 4 << 20

type runFlags struct {
	spec        api.StartRun
	env         []string
	size        string
	keep        string
	interactive bool
	quiet       bool
	inputs      []string
	outputs     string
	packages    api.Packages
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --workspace W [flags] -- COMMAND [ARG]...",
		Short: "Run a command in a workspace, in a desktop of its own, all or nothing",
		Long: `Makes a desktop, gives it the workspace, runs the command in /workspace, publishes
what it left there, and removes the desktop. The workspace is made at need.

What the command left counts when it ended with exit status 0, and not before:
when it fails, is interrupted (Ctrl-C) or its machine dies, the workspace is as
it was. One run at a time works in a workspace; a second one ends at once with
exit status 5.

With --input a file of this machine is there as /mnt/session/inputs/NAME before
the command begins, read-only; of several, all or none. Instead of a file it takes
https://…#sha256=HEX, which the server fetches.

With --outputs the command puts deliverables into /mnt/session/outputs; they are
published together with the workspace, and then fetched into a directory here.

Packages that are asked for are installed before the command begins: those of
--apt in the machine, for this run, the others in the workspace, where the next
run finds them. A program that installs them is installed itself where the
machine has none.

The exit status is the command's, or that of the error: 5 somebody else has the
workspace, 8 the machine died, 11 interrupted.`,
		Example: `  vmhost run --workspace thesis -- touch draft
  vmhost run --workspace thesis --outputs results -- cp draft /mnt/session/outputs
  vmhost run --workspace thesis --input data.csv --input lib/v2=../parser.py -- sh -c 'wc -l /mnt/session/inputs/data.csv'
  vmhost run --workspace thesis -i -- python3 - < analyse.py
  vmhost run --workspace thesis --apt graphviz --pip 'numpy>=2' -- python3 plot.py
  vmhost run --workspace scratch --keep nothing -- ./try-it`,
		Args: command.Args(1, -1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, given []string) error {
			f.spec.Argv = program(given)
			return a.run(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.SetInterspersed(false)
	fl.StringVarP(&f.spec.Workspace, "workspace", "W", "", "`name` of the workspace")
	fl.StringVar(&f.spec.Image, "image", "debian-xfce", "`image` of the desktop")
	fl.StringVar(&f.spec.Shape, "shape", "", "size of the machine: small, medium or large (default medium)")
	fl.StringVar(&f.spec.Network, "network", "", "what the desktop may reach: open or none (default open)")
	fl.StringVar(&f.size, "workspace-size", "", "`size` of a workspace that is new, such as 20G (default 10G)")
	fl.StringVar(&f.keep, "keep", "", "what stays: checkpoint (the files), machine (suspended, with all that runs in it) or nothing (default checkpoint)")
	fl.StringVar(&f.spec.RuntimeCheckpoint, "runtime-checkpoint", "", "also keep the desktop as the command leaves it, for the next run of the same command: optional, required, or portable (required, and on other hosts too)")
	fl.StringArrayVar(&f.inputs, "input", nil, "`[NAME=]FILE` that the command finds in /mnt/session/inputs, or NAME=https://…#sha256=HEX; may be repeated")
	fl.StringVar(&f.outputs, "outputs", "", "`directory` to fetch the deliverables into, which is made at need")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "environment of the command as `KEY=VALUE`; may be repeated")
	fl.StringVarP(&f.spec.Dir, "workdir", "w", "", "working `directory` (default /workspace)")
	fl.BoolVarP(&f.interactive, "interactive", "i", false, "read standard input to its end, at most 4 MiB, and send it")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "do not tell each step on standard error")
	for _, m := range []struct {
		name, example string
		to            *[]string
	}{
		{"apt", "jq or jq=1.6-2.1", &f.packages.Apt},
		{"pip", "flask or flask==3.0", &f.packages.Pip},
		{"npm", "typescript or typescript@5", &f.packages.Npm},
		{"cargo", "ripgrep or ripgrep@14.1.0", &f.packages.Cargo},
		{"gem", "rake or rake@13.0.6", &f.packages.Gem},
		{"go", "golang.org/x/tools/cmd/stringer@latest", &f.packages.Go},
	} {
		fl.StringArrayVar(m.to, m.name, nil, "`package` of "+m.name+", such as "+m.example+"; may be repeated")
	}
	command.OneOf(cmd, "shape", "small", "medium", "large")
	command.OneOf(cmd, "runtime-checkpoint", "optional", "required", api.CheckpointPortable)
	command.OneOf(cmd, "network", "open", "none")
	command.OneOf(cmd, "keep", string(api.KeepCheckpoint), string(api.KeepMachine), string(api.KeepNothing))
	return cmd
}

// parse completes the request.
func (f *runFlags) parse(in io.Reader) (err error) {
	if f.spec.Workspace == "" {
		return command.Invalid("name a workspace with --workspace")
	}
	if len(f.spec.Argv) == 0 {
		return command.Invalid("name a command to run")
	}
	if p := f.packages; len(p.Apt)+len(p.Pip)+len(p.Npm)+len(p.Cargo)+len(p.Gem)+len(p.Go) > 0 {
		f.spec.Packages = &p
	}
	f.spec.Keep, f.spec.Outputs = api.RunKeep(f.keep), f.outputs != ""
	if f.size != "" {
		if f.spec.WorkspaceMiB, err = parse.MiB(f.size); err != nil {
			return err
		}
	}
	if f.spec.Env, err = parse.Pairs("env", f.env); err != nil || !f.interactive {
		return err
	}
	if f.spec.Input, err = io.ReadAll(io.LimitReader(in, maxInput+1)); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	if len(f.spec.Input) > maxInput {
		return api.Errorf(api.CodeTooLarge, "standard input has more than %d bytes", maxInput)
	}
	return nil
}

func (a *app) run(ctx context.Context, f runFlags) error {
	if err := f.parse(a.In); err != nil {
		return err
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	started, err := a.start(ctx, c.Runs(), f)
	if err != nil {
		return err
	}
	last, err := a.follow(ctx, c.Runs(), started.ID, f.quiet)
	if err != nil {
		return err
	}
	for _, w := range last.Warnings {
		a.Say("vmhost: warning: %s", w)
	}
	if last.State == api.RunCompleted && f.outputs != "" {
		err = a.fetch(ctx, c.Runs(), last, f)
	}
	if a.JSON {
		err = errors.Join(err, a.Print(last, nil))
	}
	switch {
	case err != nil, last.State == api.RunCompleted:
		return err
	case last.ExitCode != nil && *last.ExitCode != 0 && last.Error != nil:
		a.Say("vmhost: %s", last.Error.Detail)
		return command.ExitError(*last.ExitCode)
	case last.Error != nil:
		return last.Error
	}
	return api.Errorf(api.CodeInternal, "the run is %s", last.State)
}

// start sends the inputs, and begins the run.
func (a *app) start(ctx context.Context, runs *client.Runs, f runFlags) (_ api.Run, err error) {
	f.spec.Inputs, err = transfer.Inputs(ctx, runs, f.inputs, func(file string) {
		if !f.quiet {
			a.Say("vmhost: sent %s", file)
		}
	})
	if err != nil {
		return api.Run{}, err
	}
	return runs.Start(ctx, f.spec)
}

// tells are the steps that people hear of.
var tells = map[string]string{
	"materialize workspace":      "looking for the workspace",
	"materialize session inputs": "putting the inputs",
	"acquire sandbox":            "starting a desktop",
	"run harness":                "running",
	"install apt packages":       "installing apt packages",
	"install pip packages":       "installing pip packages",
	"install npm packages":       "installing npm packages",
	"install cargo packages":     "installing cargo packages",
	"install gem packages":       "installing gem packages",
	"install go packages":        "installing go packages",
	"restore runtime checkpoint": "going on from the last desktop",
	"create runtime checkpoint":  "keeping the desktop",
	"suspend sandbox":            "suspending the desktop",
	"checkpoint workspace":       "keeping the workspace",
	"collect outputs":            "taking the outputs",
	"publish":                    "publishing",
	"terminate sandbox":          "removing the desktop",
}

// follow tells what a run tells, to its end. An interrupt asks the run to end.
func (a *app) follow(ctx context.Context, runs *client.Runs, id string, quiet bool) (api.Run, error) {
	// The end must still be heard of after an interrupt.
	link, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer asking.Done()
		a.Say("vmhost: interrupted; ending the run")
		if _, err := runs.Cancel(link, id); err != nil {
			a.Say("vmhost: %v", err)
			leave()
		}
	})
	defer func() {
		if stop() {
			asking.Done()
		}
	}()
	out := a.Out
	if a.JSON {
		out = a.Err // standard output is the run alone
	}
	for e, err := range runs.Events(link, id) {
		if err != nil {
			return api.Run{}, err
		}
		switch e.Type {
		case api.RunStdout:
			_, err = out.Write(e.Data)
		case api.RunStderr:
			_, err = a.Err.Write(e.Data)
		case api.RunStep:
			if text := tells[e.Step]; text != "" && !quiet {
				a.Say("vmhost: %s", text)
			}
		case api.RunLost:
			a.Say("vmhost: missing: %s", e.Step)
		case api.RunEnd:
			return *e.Run, nil
		}
		if err != nil {
			return api.Run{}, fmt.Errorf("write output: %w", err)
		}
	}
	return api.Run{}, api.Errorf(api.CodeInternal, "run %s told no end", id)
}

// fetch puts the deliverables into a directory.
func (a *app) fetch(ctx context.Context, runs *client.Runs, r api.Run, f runFlags) error {
	list, err := runs.Outputs(ctx, r.ID)
	if err == nil {
		err = transfer.Outputs(ctx, f.outputs, list, func(ctx context.Context, path string, w io.Writer) error {
			return runs.Output(ctx, r.ID, path, w)
		})
	}
	if err != nil {
		a.Say("vmhost: they are published; vmhost outputs get %s fetches them", r.Workspace)
		return err
	}
	if !f.quiet {
		a.Say("vmhost: %d outputs in %s", len(list), f.outputs)
	}
	return nil
}
