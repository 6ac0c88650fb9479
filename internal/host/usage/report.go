package usage

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/focus"
	"github.com/deskfork/deskfork/pkg/billing/rate"
)

// maxRows bounds what one report reads.
const maxRows = 500_000

// Events lists rows that were not acked.
func (b *Book) Events(ctx context.Context, q billing.Query) (api.UsageEvents, error) {
	rows, err := b.ledger.Pull(ctx, q)
	if err != nil {
		return api.UsageEvents{}, badQuery(err)
	}
	out := api.UsageEvents{Events: make([]api.UsageEvent, 0, len(rows)), Count: len(rows)}
	for _, r := range rows {
		out.Events = append(out.Events, api.UsageEvent{
			ID: r.ID, Project: r.Owner.Project, Session: r.Owner.Session, Agent: r.Owner.Agent, Desktop: r.Owner.Desktop,
			Incarnation: r.Incarnation, Kind: string(r.Kind), Value: r.Value, Start: r.Start, End: r.End, Recorded: r.Recorded,
		})
	}
	return out, nil
}

// Ack marks rows as billed and answers how many were not before.
func (b *Book) Ack(ctx context.Context, project string, ids []int64) (int, error) {
	return b.ledger.Ack(ctx, project, ids)
}

// Asked is what a report is asked for. Days of Period are UTC.
type Asked struct {
	Start, End string // first and last day, YYYY-MM-DD; empty: the first of this month, today
	Days       int    // 0, or how many that must be
	Project    string // empty: all
	Session    string // empty: all
}

// period reads the days that are asked for.
func (a Asked) period(now time.Time) (focus.Period, error) {
	now = now.UTC()
	if a.End == "" {
		a.End = now.Format(time.DateOnly)
	}
	if a.Start == "" {
		a.Start = now.AddDate(0, 0, 1-now.Day()).Format(time.DateOnly)
	}
	p, err := focus.ParsePeriod(a.Start, a.End, a.Days)
	if err != nil {
		return p, badQuery(err)
	}
	return p, nil
}

func (a Asked) scope() focus.Scope {
	switch {
	case a.Session != "":
		return focus.Scope{Type: "session", ID: a.Session}
	case a.Project != "":
		return focus.Scope{Type: "project", ID: a.Project}
	default:
		return focus.Scope{Type: "account", ID: "all"}
	}
}

// charges are the rows of a period with their prices, and those that are not
// closed yet as they are now.
func (b *Book) charges(ctx context.Context, a Asked, p focus.Period) ([]billing.Charge, error) {
	q := billing.Query{Project: a.Project, Session: a.Session, Limit: billing.MaxLimit}
	q.From, q.To = p.Bounds()
	pricer := b.pricer()
	var charges []billing.Charge
	have := map[billing.Key]bool{}
	// Before the ledger is read: what closes in between is found there.
	open := b.meter.Preview()
	for {
		rows, err := b.ledger.List(ctx, q)
		if err != nil {
			return nil, badQuery(err)
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			have[r.Key()] = true
			charges = append(charges, pricer.Charge(r))
			q.Since = r.ID
		}
		if len(charges) > maxRows {
			return nil, api.Errorf(api.CodeInvalid, "the period has more than %d rows of use; ask for fewer days, or for one project", maxRows)
		}
	}
	for _, r := range open {
		mine := (a.Project == "" || a.Project == r.Owner.Project) && (a.Session == "" || a.Session == r.Owner.Session)
		if mine && !have[r.Key()] && !r.Start.Before(q.From) && r.Start.Before(q.To) {
			charges = append(charges, pricer.Charge(r))
		}
	}
	return charges, nil
}

func (b *Book) pricer() billing.Pricer {
	if b.cfg.Rates == nil {
		return &rate.Book{}
	}
	return b.cfg.Rates
}

// Report says what a period has cost, as far as that is known.
func (b *Book) Report(ctx context.Context, a Asked, now time.Time) (api.CostReport, error) {
	p, err := a.period(now)
	if err != nil {
		return api.CostReport{}, err
	}
	charges, err := b.charges(ctx, a, p)
	if err != nil {
		return api.CostReport{}, err
	}
	return wire(focus.NewReport(p, a.scope(), charges, now), daily(p, charges)), nil
}

// Export writes a period as FOCUS, as CSV or as JSON lines.
func (b *Book) Export(ctx context.Context, a Asked, now time.Time, format string) (func(io.Writer) error, error) {
	write, ok := map[string]func(io.Writer, []billing.Charge, focus.Party) error{"csv": focus.WriteCSV, "jsonl": focus.WriteJSONL}[format]
	if !ok {
		return nil, api.Errorf(api.CodeInvalid, "format %q is neither csv nor jsonl", format)
	}
	p, err := a.period(now)
	if err != nil {
		return nil, err
	}
	charges, err := b.charges(ctx, a, p)
	if err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		if err := write(w, charges, b.cfg.Party); err != nil {
			return fmt.Errorf("write FOCUS: %w", err)
		}
		return nil
	}, nil
}

// daily sums a period up by day and kind; a day without use has none.
func daily(p focus.Period, charges []billing.Charge) []api.UsageDay {
	from, _ := p.Bounds()
	days := make([]api.UsageDay, p.Days)
	for i := range days {
		days[i] = api.UsageDay{Day: from.AddDate(0, 0, i).Format(time.DateOnly), Values: map[string]int64{}}
	}
	for _, c := range charges {
		days[int(c.Row.Start.Sub(from)/(24*time.Hour))].Values[string(c.Row.Kind)] += c.Row.Value
	}
	return days
}

// wire is a report in the words of the API.
func wire(r focus.Report, days []api.UsageDay) api.CostReport {
	out := api.CostReport{
		Period: api.CostPeriod(r.Period), Scope: api.CostScope(r.Scope), Attribution: api.CostAttribution(r.Attribution),
		Lines: make([]api.CostLine, 0, len(r.Lines)), Daily: days, Total: (*api.Money)(r.Total),
	}
	for _, l := range r.Lines {
		out.Lines = append(out.Lines, api.CostLine{
			Kind: string(l.Kind), Quantity: l.Quantity, Unit: l.Unit, Value: l.Value, Cost: (*api.Money)(l.Cost),
		})
	}
	return out
}
