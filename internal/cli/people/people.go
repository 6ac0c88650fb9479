// Package people is the commands by which people watch desktops and take control.
package people

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
	"github.com/deskfork/deskfork/pkg/api/client"
)

// app is one run of a command line.
type app struct{ *command.App }

// Commands are control, open and record.
func Commands(a *command.App) []*cobra.Command {
	p := &app{a}
	return []*cobra.Command{p.openCmd(), p.controlCmd(), p.recordCmd()}
}

// personHolder is what a person at a terminal is called who does not say.
const personHolder = "person"

func (a *app) controlCmd() *cobra.Command {
	var change api.ChangeControl
	var agent bool
	var ttl, wait time.Duration
	changes := []string{"status", api.ControlTake, api.ControlRequest, api.ControlGive, api.ControlRelease, api.ControlRenew, "log"}
	cmd := &cobra.Command{
		Use: "control D [take|request|give|release|renew|status|log]", Short: "See or change who has control",
		Long: `While nobody has control of a desktop every agent may act on it. Whoever takes it
has it alone, until it is released, given away, or its holder is silent for the
time to live: calls of others end with control_held, and what they hold down is
let go. A person takes control from an agent, as the desktop's policy has it.

What is done under it names its holder: vmhost click first 10 10 --holder person.
Without an action this prints who has control; log prints who had it, and who
watched.`,
		Example: `  vmhost control first
  vmhost control first take --ttl 10m
  vmhost click first 640 400 --holder person
  vmhost control first release
  vmhost control first request --agent --holder robot --wait 1m
  vmhost control first log`,
		Args: command.Args(1, 2),
		ValidArgsFunction: func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 1 {
				return changes, cobra.ShellCompDirectiveNoFileComp
			}
			return a.CompleteDesktops(1)(cmd, given, prefix)
		},
		RunE: func(cmd *cobra.Command, given []string) error {
			change.As = api.ControlPerson
			if agent {
				change.As = api.ControlAgent
			} else {
				change.Holder = cmp.Or(change.Holder, personHolder)
			}
			d, err := a.Desktop(given[0])
			if err != nil {
				return err
			}
			d = d.Holding(change.Holder, 0)
			action := "status"
			if len(given) > 1 {
				action = given[1]
			}
			change.Action, change.TTLS = action, int(ttl.Seconds())
			return a.control(cmd.Context(), d, change, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&change.Holder, "holder", "", "`name` of who asks (default: person, with --agent the token)")
	f.BoolVar(&agent, "agent", false, "ask as an agent, not as a person")
	f.Uint64Var(&change.Epoch, "epoch", 0, "`number` of the lease that is given, released or renewed (default: the present one)")
	f.DurationVar(&ttl, "ttl", 0, "how long the holder may be silent (default 30s)")
	f.DurationVar(&wait, "wait", 0, "how long a request waits for its turn (default: not at all)")
	f.StringVar(&change.To, "to", "", "`name` of who is given control (default: who has asked longest)")
	return cmd
}

// control does one of the actions and prints what came of it.
func (a *app) control(ctx context.Context, d *client.Desktop, change api.ChangeControl, wait time.Duration) error {
	var got api.Control
	var err error
	switch change.Action {
	case "status":
		got, err = d.Control().Status(ctx)
	case "log":
		list, err := d.Control().Audit(ctx, 0)
		if err != nil {
			return err
		}
		return a.Print(api.AuditLog{Entries: list}, func(w io.Writer) { auditTable(w, list) })
	case api.ControlTake, api.ControlRequest, api.ControlGive, api.ControlRelease, api.ControlRenew:
		got, err = d.Control().Change(ctx, change, wait)
	default:
		return command.Invalid("unknown action %q: want take, request, give, release, renew, status or log", change.Action)
	}
	if err != nil {
		return err
	}
	return a.Print(got, func(w io.Writer) { controlLines(w, got, a.Now()) })
}

func controlLines(w io.Writer, c api.Control, now time.Time) {
	if !c.Held {
		fmt.Fprintf(w, "nobody has control (epoch %d)\n", c.Epoch)
	} else {
		mine := ""
		if c.Mine {
			mine = ", that is you"
		}
		fmt.Fprintf(w, "%s has control%s (epoch %d, for %s)\n", who(c.Kind, c.Holder), mine, c.Epoch, c.Expires.Sub(now).Round(time.Second))
	}
	for _, ask := range c.Asking {
		fmt.Fprintf(w, "%s asks for it\n", who(ask.Kind, ask.Holder))
	}
}

// who is what a holder is called in a sentence: a person who has not said a name is
// called person.
func who(kind api.ControlKind, name string) string {
	if name == string(kind) {
		return "a " + name
	}
	return string(kind) + " " + name
}

func auditTable(w io.Writer, list []api.AuditEntry) {
	rows := [][]string{{"TIME", "WHAT", "EPOCH", "WHO", "KIND", "BY", "DETAIL"}}
	for _, e := range list {
		epoch := ""
		if e.Epoch > 0 {
			epoch = fmt.Sprint(e.Epoch)
		}
		rows = append(rows, []string{e.Time.Format(time.RFC3339), e.What, epoch, e.Who, e.Kind, e.By, e.Detail})
	}
	show.Table(w, rows...)
}

func (a *app) openCmd() *cobra.Command {
	spec := api.CreateTicket{Kind: api.TicketView}
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "open [D]", Short: "Print a link by which a person watches a desktop, or all of them",
		Long: `Prints a link that lets whoever has it watch the desktop for a while, and with the
role control take over: with admin from other people too. It ends with its time,
or with the token that it was made with.

Without a desktop the link is to the dashboard, with every desktop of the project:
under role control its holder makes and forks desktops, and lets them rest and go
on, and under admin he deletes them.`,
		Example: `  vmhost open
  vmhost open --role admin
  vmhost open first
  vmhost open first --role control --ttl 1h`,
		Args: command.Args(0, 1), ValidArgsFunction: a.CompleteDesktops(1),
		RunE: func(cmd *cobra.Command, given []string) error {
			spec.TTLS = int(ttl.Seconds())
			t, err := a.ticket(cmd.Context(), given, spec)
			if err != nil {
				return err
			}
			return a.Print(t, func(w io.Writer) { fmt.Fprintln(w, t.URL) })
		},
	}
	cmd.Flags().StringVar(&spec.Role, "role", "view", "what its holder may do: view, control or admin")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "how long it is valid, at most a day (default 10m, of the dashboard 8h)")
	command.OneOf(cmd, "role", "view", "control", "admin")
	return cmd
}

// ticket makes a ticket of a desktop, or of the project when none is named.
func (a *app) ticket(ctx context.Context, given []string, spec api.CreateTicket) (api.Ticket, error) {
	if len(given) == 0 {
		c, err := a.Client()
		if err != nil {
			return api.Ticket{}, err
		}
		return c.ProjectTickets().Create(ctx, spec)
	}
	d, err := a.Desktop(given[0])
	if err != nil {
		return api.Ticket{}, err
	}
	return d.Tickets().Create(ctx, spec)
}
