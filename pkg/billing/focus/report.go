package focus

import (
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

// WarnOpen says that a report's period is not over: more use may come.
const WarnOpen = "period_open"

// maxDays bounds a report.
const maxDays = 366

// Completeness of a report's data.
const (
	Complete    = "complete"
	Partial     = "partial"
	Unavailable = "unavailable"
)

// Period is whole days, UTC, both included.
type Period struct {
	Start string
	End   string
	Days  int
}

// ParsePeriod reads the days of a period. days may be 0; otherwise it must be
// how many there are.
func ParsePeriod(start, end string, days int) (Period, error) {
	from, err := time.Parse(time.DateOnly, start)
	if err != nil {
		return Period{}, fmt.Errorf("%w period: first day %q, want YYYY-MM-DD", billing.ErrInvalid, start)
	}
	to, err := time.Parse(time.DateOnly, end)
	if err != nil {
		return Period{}, fmt.Errorf("%w period: last day %q, want YYYY-MM-DD", billing.ErrInvalid, end)
	}
	n := int(to.Sub(from)/(24*time.Hour)) + 1
	switch {
	case n < 1:
		return Period{}, fmt.Errorf("%w period: %s is before %s", billing.ErrInvalid, end, start)
	case n > maxDays:
		return Period{}, fmt.Errorf("%w period: %d days, at most %d", billing.ErrInvalid, n, maxDays)
	case days != 0 && days != n:
		return Period{}, fmt.Errorf("%w period: it has %d days, not %d", billing.ErrInvalid, n, days)
	}
	return Period{Start: start, End: end, Days: n}, nil
}

// Bounds are the instants [from, to) of a period that ParsePeriod made.
func (p Period) Bounds() (from, to time.Time) {
	from, _ = time.Parse(time.DateOnly, p.Start)
	return from, from.AddDate(0, 0, p.Days)
}

// Scope is whose cost it is.
type Scope struct {
	Type string
	ID   string
}

// Attribution says how far a report can be trusted.
type Attribution struct {
	Provider     string
	Source       string
	Granularity  string
	InvoiceGrade bool
	Completeness string
	ReconciledAt *time.Time
	Warnings     []string
}

// Money is an amount in a currency.
type Money struct {
	Amount   string
	Currency string
}

// Line is the use of one kind in the period.
type Line struct {
	Kind     billing.Kind
	Quantity string
	Unit     string
	Value    int64
	Cost     *Money
}

// Report is what use has cost. Its parts are what the API shows, field by field.
type Report struct {
	Period      Period
	Scope       Scope
	Attribution Attribution
	Lines       []Line
	Total       *Money
}

// NewReport sums the charges of a period up. now says whether it is over.
func NewReport(p Period, s Scope, charges []billing.Charge, now time.Time) Report {
	r := Report{Period: p, Scope: s, Lines: []Line{}, Attribution: Attribution{
		Provider: "deskfork", Source: "provider_metered", Granularity: "resource", Completeness: Complete, Warnings: []string{},
	}}
	by, priced := map[billing.Kind][]billing.Charge{}, false
	for _, c := range charges {
		by[c.Row.Kind] = append(by[c.Row.Kind], c)
		priced = priced || c.Cost != nil
	}
	for _, k := range billing.Kinds() {
		if by[k] == nil {
			continue
		}
		line := Line{Kind: k, Unit: k.Unit().Name}
		for _, c := range by[k] {
			line.Value += c.Row.Value
		}
		line.Quantity = billing.Ratio(line.Value, k.Unit().Size).String()
		line.Cost, _ = total(by[k])
		r.Lines = append(r.Lines, line)
	}
	var warnings []string
	r.Total, warnings = total(charges)
	r.Attribution.Warnings = append(r.Attribution.Warnings, warnings...)
	if _, end := p.Bounds(); now.Before(end) {
		r.Attribution.Warnings = append(r.Attribution.Warnings, WarnOpen)
	}
	switch {
	case len(charges) > 0 && !priced:
		r.Attribution.Completeness = Unavailable
	case len(r.Attribution.Warnings) > 0:
		r.Attribution.Completeness = Partial
	}
	return r
}

func total(charges []billing.Charge) (*Money, []string) {
	sum, currency, warnings := billing.Total(charges)
	if sum == nil {
		return nil, warnings
	}
	return &Money{Amount: sum.String(), Currency: currency}, nil
}
