package desktops

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

type forkFlags struct {
	spec        api.Fork
	labels, env []string
	policy      policyFlags
	waiting     waiting
}

func (a *group) forkCmd() *cobra.Command {
	f := forkFlags{spec: api.Fork{Count: 1}}
	cmd := &cobra.Command{
		Use:   "fork D",
		Short: "Make children of a desktop that go on from where it stands",
		Long: `Clones a desktop as it is at this moment, and prints the ids of its children.
Open windows, running programs, execs (attach to them again by their ids),
files, the clipboard and /workspace are in each child; the desktop itself goes
on. A child may be forked again, and lives on when its parent is removed.

It waits until the children are drawn. With -n all of them come from the same
moment, and one that fails is told as create does.`,
		Example: `  vmhost fork first
  vmhost fork first -n 5 --name try
  vmhost fork first --ttl 1h --label run=42`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.fork(cmd.Context(), given[0], f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.spec.Name, "name", "", "`name` of the child, with -n the first part of NAME-1, NAME-2, … (default: made up)")
	fl.IntVarP(&f.spec.Count, "count", "n", 1, "`how many`, up to 200")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label as `KEY=VALUE` instead of the parent's; may be repeated")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "further environment of programs as `KEY=VALUE`; may be repeated")
	f.policy.flags(cmd)
	f.waiting.flags(fl)
	return cmd
}

func (f *forkFlags) parse() error {
	var labels, env, policy error
	f.spec.Labels, labels = parse.Pairs("label", f.labels)
	f.spec.Env, env = parse.Pairs("env", f.env)
	f.spec.Policy, policy = f.policy.over(api.Policy{})
	return errors.Join(labels, env, policy, checkCount(f.spec.Count))
}

func (a *group) fork(ctx context.Context, ref string, f forkFlags) error {
	if err := f.parse(); err != nil {
		return err
	}
	d, err := a.Desktop(ref)
	if err != nil {
		return err
	}
	children, err := d.Fork(ctx, f.spec)
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return api.Errorf(api.CodeInternal, "the server made no child and named no error")
	}
	return a.bringUp(ctx, f.waiting, len(children), func(i int) (*client.Desktop, error) { return children[i], nil })
}
