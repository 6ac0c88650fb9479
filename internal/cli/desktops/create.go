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

// defaultImage is what create makes when no image is named.
const defaultImage = "debian-xfce"

type createFlags struct {
	spec          api.CreateDesktop
	count         int
	labels, env   []string
	display, size string
	policy        policyFlags
	waiting       waiting
}

func (a *group) createCmd() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [IMAGE]",
		Short: "Create a desktop and wait until it is drawn",
		Long: `Creates a desktop from an image (default ` + defaultImage + `) or a snapshot and
prints its id. It is cloned from the image's boot snapshot where there is one
that fits this host, else it boots; ls shows which it was.

It waits until the desktop is drawn and tells each stage on standard error. A
desktop whose start fails stays, for a look at its logs.

With -n several are made side by side, NAME-1, NAME-2, … when a name is given;
their ids come one a line, those that failed are told on standard error, and
the exit status is that of the first of these.`,
		Example: `  vmhost create debian-xfce --name first
  vmhost create -n 5 --name worker
  vmhost create --snapshot logged-in
  vmhost create --shape large --display 1920x1080 --keyboard de:nodeadkeys
  id=$(vmhost create --label team=qa --env TZ=Europe/Berlin --network none)
  vmhost create --ttl 2h --idle 10m --idle-action suspend
  vmhost create --workspace thesis --name again
  vmhost create --no-wait --workspace-size 20G`,
		Args: command.Args(0, 1), ValidArgsFunction: a.CompleteImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			switch {
			case len(given) > 0 && f.spec.Snapshot != "":
				return command.Invalid("either an image or --snapshot, not both")
			case len(given) > 0:
				f.spec.Image = given[0]
			case f.spec.Snapshot == "":
				f.spec.Image = defaultImage
			}
			return a.create(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.spec.Name, "name", "", "`name` of the desktop (default: made up)")
	fl.IntVarP(&f.count, "count", "n", 1, "`how many`, up to 200")
	fl.StringVar(&f.spec.Snapshot, "snapshot", "", "`name` or id of a snapshot to clone instead of an image")
	fl.BoolVar(&f.spec.Cold, "cold", false, "boot, although a clone is quicker")
	fl.StringVar(&f.spec.Shape, "shape", "", "size of the machine: small, medium or large (default medium)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label as `KEY=VALUE`; may be repeated")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "default environment of programs as `KEY=VALUE`; may be repeated")
	fl.StringVar(&f.display, "display", "", "size of the screen as `WIDTHxHEIGHT` (default: the image's)")
	fl.StringVar(&f.spec.Keyboard, "keyboard", "", "keyboard layout as `LAYOUT[:VARIANT]` (default us)")
	fl.StringVar(&f.spec.Network, "network", "", "what the desktop may reach: open or none (default open)")
	fl.StringVar(&f.spec.Workspace, "workspace", "", "`W[@CHECKPOINT]` to begin /workspace with; all of it is verified before")
	fl.StringVar(&f.size, "workspace-size", "", "`size` of /workspace, such as 20G (default 10G)")
	f.policy.flags(cmd)
	f.waiting.flags(fl)
	command.OneOf(cmd, "shape", "small", "medium", "large")
	command.OneOf(cmd, "network", "open", "none")
	_ = cmd.RegisterFlagCompletionFunc("snapshot", a.CompleteSnapshots(0, -1)) // the flag is there
	return cmd
}

func (f *createFlags) parse() (err error) {
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	f.spec.Labels, err = parse.Pairs("label", f.labels)
	keep(err)
	f.spec.Env, err = parse.Pairs("env", f.env)
	keep(err)
	if f.display != "" {
		d, err := parse.Display(f.display)
		keep(err)
		f.spec.Display = &d
	}
	if f.size != "" {
		f.spec.WorkspaceMiB, err = parse.MiB(f.size)
		keep(err)
	}
	if f.spec.Snapshot != "" && f.spec.Cold {
		keep(command.Invalid("--cold boots an image; it does not go with --snapshot"))
	}
	f.spec.Policy, err = f.policy.over(api.Policy{})
	keep(err)
	keep(checkCount(f.count))
	return errors.Join(errs...)
}

func (a *group) create(ctx context.Context, f createFlags) error {
	if err := f.parse(); err != nil {
		return err
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	return a.bringUp(ctx, f.waiting, f.count, func(i int) (*client.Desktop, error) {
		spec := f.spec
		spec.Name = numbered(spec.Name, i, f.count)
		return c.Desktops().Create(ctx, spec)
	})
}
