package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// defaultImage is what create makes when no image is named.
const defaultImage = "debian-xfce"

type createFlags struct {
	spec          api.CreateDesktop
	labels, env   []string
	display, size string
	wait, noWait  bool
	timeout       time.Duration
}

func (a *app) createCmd() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use:   "create [IMAGE]",
		Short: "Create a desktop and wait until it is drawn",
		Long: `Creates a desktop from an image (default ` + defaultImage + `) and prints its id.

It waits until the desktop is drawn and tells each stage on standard error. A
desktop whose start fails stays, for a look at its logs.`,
		Example: `  vmhost create debian-xfce --name first
  vmhost create --shape large --display 1920x1080 --keyboard de:nodeadkeys
  id=$(vmhost create --label team=qa --env LANG=de_DE.UTF-8 --network none)
  vmhost create --no-wait --workspace-size 20G`,
		Args: args(0, 1), ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, given []string) error {
			f.spec.Image = defaultImage
			if len(given) > 0 {
				f.spec.Image = given[0]
			}
			return a.create(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.spec.Name, "name", "", "`name` of the desktop (default: made up)")
	fl.StringVar(&f.spec.Shape, "shape", "", "size of the machine: small, medium or large (default medium)")
	fl.StringArrayVarP(&f.labels, "label", "l", nil, "label as `KEY=VALUE`; may be repeated")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "default environment of programs as `KEY=VALUE`; may be repeated")
	fl.StringVar(&f.display, "display", "", "size of the screen as `WIDTHxHEIGHT` (default: the image's)")
	fl.StringVar(&f.spec.Keyboard, "keyboard", "", "keyboard layout as `LAYOUT[:VARIANT]` (default us)")
	fl.StringVar(&f.spec.Network, "network", "", "what the desktop may reach: open or none (default open)")
	fl.StringVar(&f.size, "workspace-size", "", "`size` of /workspace, such as 20G (default 10G)")
	fl.BoolVar(&f.wait, "wait", true, "wait until the desktop is drawn")
	fl.BoolVar(&f.noWait, "no-wait", false, "return when the machine begins")
	fl.DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to wait")
	oneOf(cmd, "shape", "small", "medium", "large")
	oneOf(cmd, "network", "open", "none")
	return cmd
}

func (f *createFlags) parse() (err error) {
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	if f.spec.Labels, err = parse.Pairs("label", f.labels); err != nil {
		keep(err)
	}
	if f.spec.Env, err = parse.Pairs("env", f.env); err != nil {
		keep(err)
	}
	if f.display != "" {
		d, err := parse.Display(f.display)
		keep(err)
		f.spec.Display = &d
	}
	if f.size != "" {
		f.spec.WorkspaceMiB, err = parse.MiB(f.size)
		keep(err)
	}
	return errors.Join(errs...)
}

func (a *app) create(ctx context.Context, f createFlags) error {
	if err := f.parse(); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	d, err := c.Desktops().Create(ctx, f.spec)
	if err != nil {
		return err
	}
	info := d.Info
	if f.wait && !f.noWait {
		info, err = a.follow(ctx, d, api.StageDrawn, f.timeout)
		if err != nil {
			a.say("desktop %s stays: see vmhost logs %s; remove it with vmhost rm %s", info.ID, d.Ref(), d.Ref())
			return err
		}
	}
	return a.print(info, func(w io.Writer) { fmt.Fprintln(w, info.ID) })
}

// follow waits stage by stage, and tells each on standard error.
func (a *app) follow(ctx context.Context, d *client.Desktop, until api.Stage, timeout time.Duration) (api.Desktop, error) {
	deadline := time.Now().Add(timeout)
	info := d.Info
	for _, stage := range stages() {
		got, err := d.Wait(ctx, stage, max(time.Until(deadline), time.Millisecond).Round(time.Millisecond))
		if err != nil {
			return info, err
		}
		info = got
		for _, s := range info.Stages {
			if s.Stage == stage && !a.JSON {
				a.say("%-10s %6.1f s", s.Stage, float64(s.TookMS)/1000)
			}
		}
		if stage == until {
			break
		}
	}
	return info, nil
}

func (a *app) waitCmd() *cobra.Command {
	var stage string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait D",
		Short: "Wait until a desktop has reached a stage",
		Long: `Waits until a desktop has reached a stage of becoming ready, drawn by default.
The stages are, in this order: admission, machine, link, handshake, session,
drawn. A stage that fails ends the wait with its error.`,
		Example: `  vmhost wait first
  vmhost wait first --stage link --timeout 30s`,
		Args: args(1, 1), ValidArgsFunction: a.completeDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := a.desktop(given[0])
			if err != nil {
				return err
			}
			info, err := d.Wait(cmd.Context(), api.Stage(stage), timeout)
			if err != nil {
				return err
			}
			return a.print(info, func(w io.Writer) { fmt.Fprintln(w, info.ID) })
		},
	}
	cmd.Flags().StringVar(&stage, "stage", string(api.StageDrawn), "`stage` to wait for")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait")
	oneOf(cmd, "stage", stageNames()...)
	return cmd
}
