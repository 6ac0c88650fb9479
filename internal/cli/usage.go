package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/command"
	"github.com/deskfork/deskfork/internal/cli/show"
	"github.com/deskfork/deskfork/pkg/api"
)

// defaultChart is the kind that is drawn unless another is asked for.
const defaultChart = "sandbox_active_seconds"

func (a *app) usageCmd() *cobra.Command {
	var (
		q           api.CostQuery
		kind, focus string
	)
	cmd := &cobra.Command{
		Use: "usage", Short: "Show what desktops have used, by day, and what it costs",
		Long: `Shows what desktops have used in the days from --start to --end, both included,
in UTC. What runs now is counted up to now. A cost that is not known is said to be
missing; it is never shown as 0. The server knows prices from its rate card.

With --focus the use is written as a data set of FOCUS 1.3.`,
		Example: `  vmhost usage
  vmhost usage --start 2026-11-01 --end 2026-11-30 --kind egress_bytes
  vmhost usage --start 2026-11-01 --end 2026-11-30 --focus csv > november.csv`,
		Args: command.Args(0, 0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			if focus != "" {
				return c.Usage().Focus(cmd.Context(), q, focus, a.Out)
			}
			r, err := c.Usage().Report(cmd.Context(), q)
			if err != nil {
				return err
			}
			return a.Print(r, func(w io.Writer) { usageTable(w, r); usageChart(w, r, kind) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Start, "start", "", "first `day`, YYYY-MM-DD (default: the first of this month)")
	f.StringVar(&q.End, "end", "", "last `day` (default: today)")
	f.StringVar(&q.Project, "project", "", "only this `project`; others than its own need a token with the scope billing")
	f.StringVar(&q.Session, "session", "", "only this `session`")
	f.StringVar(&kind, "kind", defaultChart, "what the chart draws")
	f.StringVar(&focus, "focus", "", "write FOCUS 1.3 instead, as `csv` or jsonl")
	command.OneOf(cmd, "focus", "csv", "jsonl")
	return cmd
}

func usageTable(w io.Writer, r api.CostReport) {
	fmt.Fprintf(w, "%s %s, %s to %s (UTC)\n\n", r.Scope.Type, show.Plain(r.Scope.ID), r.Period.Start, r.Period.End)
	if len(r.Lines) == 0 {
		fmt.Fprintln(w, "Nothing was used.")
		return
	}
	rows := [][]string{{"KIND", "QUANTITY", "UNIT", "COST"}}
	for _, l := range r.Lines {
		rows = append(rows, []string{l.Kind, l.Quantity, l.Unit, money(l.Cost)})
	}
	rows = append(rows, []string{"total", "", "", money(r.Total)})
	show.Table(w, rows...)
	for _, code := range r.Attribution.Warnings {
		fmt.Fprintf(w, "%s: %s\n", code, meaning(code))
	}
}

func money(m *api.Money) string {
	if m == nil {
		return "not known"
	}
	return strings.TrimSpace(m.Amount + " " + m.Currency)
}

// meaning says a report's warning in words.
func meaning(code string) string {
	switch code {
	case "provider_cost_unavailable":
		return "the server's rate card has no price for some of it"
	case "billing_currency_unavailable":
		return "some of it has no currency"
	case "mixed_billing_currencies":
		return "it is priced in several currencies, which have no sum"
	case "period_open":
		return "the period is not over; more may come"
	default:
		return "see the documentation of the server"
	}
}

// chartWidth is the length of the longest bar in characters.
const chartWidth = 40

// usageChart draws one kind by day, from the first day of use to the last.
func usageChart(w io.Writer, r api.CostReport, kind string) {
	used := func(d api.UsageDay) bool { return d.Values[kind] > 0 }
	first := slices.IndexFunc(r.Daily, used)
	if first < 0 {
		return
	}
	days := r.Daily[first:]
	for !used(days[len(days)-1]) {
		days = days[:len(days)-1]
	}
	var most int64
	for _, d := range days {
		most = max(most, d.Values[kind])
	}
	fmt.Fprintf(w, "\n%s by day\n", kind)
	for _, d := range days {
		v := d.Values[kind]
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s  %s  %d", d.Day, show.Bar(v, most, chartWidth), v), " "))
	}
}
