package desktops

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

// Defaults of a policy that names an idle time alone, said as the server takes
// them.
const (
	defaultIdleAction = api.IdleSuspend
	defaultIdleCPU    = 10
)

// policyFlags are the flags by which a desktop ends or rests by itself.
type policyFlags struct {
	cmd       *cobra.Command
	ttl, idle time.Duration
	action    string
	cpu       int
}

func (f *policyFlags) flags(cmd *cobra.Command) {
	f.cmd = cmd
	fl := cmd.Flags()
	fl.DurationVar(&f.ttl, "ttl", 0, "remove the desktop so long after its creation, such as 2h; 0: never")
	fl.DurationVar(&f.idle, "idle", 0, "act when it was idle for so long, such as 10m; 0: never")
	fl.StringVar(&f.action, "idle-action", "", "what to do then: pause, suspend or delete (default suspend)")
	fl.IntVar(&f.cpu, "idle-cpu", 0, "`percent` of a core below which it counts as idle (default 10)")
	command.OneOf(cmd, "idle-action", string(api.IdlePause), string(api.IdleSuspend), string(api.IdleDelete))
}

// given says whether any of the flags was.
func (f *policyFlags) given() bool {
	for _, name := range []string{"ttl", "idle", "idle-action", "idle-cpu"} {
		if f.cmd.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// over is a policy with what the flags change.
func (f *policyFlags) over(p api.Policy) (api.Policy, error) {
	fl := f.cmd.Flags()
	for _, d := range []struct {
		flag  string
		value time.Duration
		to    *int
	}{{"ttl", f.ttl, &p.TTLS}, {"idle", f.idle, &p.IdleS}} {
		if !fl.Changed(d.flag) {
			continue
		}
		if d.value < 0 || d.value%time.Second != 0 {
			return p, command.Invalid("--%s %s is not a number of whole seconds", d.flag, d.value)
		}
		*d.to = int(d.value / time.Second)
	}
	if fl.Changed("idle-action") {
		p.IdleAction = api.IdleAction(f.action)
		switch p.IdleAction {
		case api.IdlePause, api.IdleSuspend, api.IdleDelete:
		default:
			return p, command.Invalid("--idle-action %q is none of pause, suspend and delete", f.action)
		}
	}
	if fl.Changed("idle-cpu") {
		if f.cpu < 0 || f.cpu > 100 {
			return p, command.Invalid("--idle-cpu %d is not within 0 to 100", f.cpu)
		}
		p.IdleCPU = f.cpu
	}
	if p.IdleS == 0 && (fl.Changed("idle-action") || fl.Changed("idle-cpu")) {
		return p, command.Invalid("--idle-action and --idle-cpu need --idle, such as --idle 10m")
	}
	return p, nil
}

func (a *group) policyCmd() *cobra.Command {
	var f policyFlags
	cmd := &cobra.Command{
		Use:   "policy D",
		Short: "Show or change when a desktop ends or rests by itself",
		Long: `Shows when a desktop ends or rests by itself, or changes what the flags name.

A desktop is idle while nothing is executed in it, no input comes, nobody
watches it and its processors do next to nothing. An event comes before it is
paused, suspended or removed.`,
		Example: `  vmhost policy first
  vmhost policy first --idle 10m --idle-action suspend
  vmhost policy first --ttl 0`,
		Args: command.Args(1, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error { return a.policy(cmd.Context(), given[0], &f) },
	}
	f.flags(cmd)
	return cmd
}

func (a *group) policy(ctx context.Context, ref string, f *policyFlags) error {
	d, err := a.Desktop(ref)
	if err != nil {
		return err
	}
	info, err := d.Get(ctx)
	if err != nil {
		return err
	}
	if f.given() {
		p, err := f.over(info.Policy)
		if err != nil {
			return err
		}
		if info, err = d.SetPolicy(ctx, p); err != nil {
			return err
		}
	}
	return a.Print(info.Policy, func(w io.Writer) { policyTable(w, info) })
}

func policyTable(w io.Writer, info api.Desktop) {
	p, expires, action, below := info.Policy, "-", "-", "-"
	if !info.Expires.IsZero() {
		expires = info.Expires.UTC().Format(time.RFC3339)
	}
	if p.IdleS > 0 {
		action, below = string(cmp.Or(p.IdleAction, defaultIdleAction)), fmt.Sprintf("%d %%", cmp.Or(p.IdleCPU, defaultIdleCPU))
	}
	show.Table(w, []string{"TTL", "EXPIRES", "IDLE", "ACTION", "BELOW CPU"}, []string{seconds(p.TTLS), expires, seconds(p.IdleS), action, below})
}

func seconds(n int) string {
	if n == 0 {
		return "never"
	}
	return (time.Duration(n) * time.Second).String()
}
