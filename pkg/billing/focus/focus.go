// Package focus writes use and its cost as a dataset "Cost and Usage" of FOCUS
// 1.3, the FinOps Open Cost and Usage Specification, and answers cost reports.
//
// One record is a day (UTC, half open) of one kind by one desktop or session at
// one price. All mandatory columns of 1.3 are there, with the two that it has
// deprecated and not yet removed. What has no rate has empty costs, where the
// specification knows no way to say "missing": a 0 would be a lie. Such records
// say why in x_MissingReason, and the export as a whole must then not be summed.
package focus

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

// Version is that of the specification.
const Version = "1.3"

// digits is how many digits of a number are written after the point, at most.
const digits = 12

// Party says who offers, runs and bills: FOCUS wants a name for each.
type Party struct {
	Account string // BillingAccountId and -Name. Default: Provider
	Issuer  string // InvoiceIssuerName. Default: Provider
	// Provider is who runs the desktops. Default: Deskfork.
	Provider string
}

func (p *Party) setDefaults() {
	p.Provider = cmp.Or(p.Provider, "Deskfork")
	p.Account, p.Issuer = cmp.Or(p.Account, p.Provider), cmp.Or(p.Issuer, p.Provider)
}

// column is one column; value is empty where FOCUS has null.
type column struct {
	name   string
	number bool
	value  func(r *record) string
	isTags bool // a JSON object
}

// record is what one line of the dataset is made of.
type record struct {
	key
	party Party
	value int64
	cost  *billing.Amount
	price *billing.Amount
}

// key is what lines are summed up by.
type key struct {
	day                time.Time
	owner              billing.Owner
	resource, kindType string
	kind               billing.Kind
	currency, card     string
	rate               string // of one unit, as text
}

func text(s string) func(*record) string { return func(*record) string { return s } }

func cost(r *record) string { return number(r.cost) }

// number writes an amount without trailing zeros.
func number(a *billing.Amount) string {
	if a == nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimRight(a.Text(digits), "0"), ".")
}

func ratio(n, per int64) string {
	a := billing.Ratio(n, per)
	return number(&a)
}

// when writes v of a priced record alone.
func when(v func(*record) string) func(*record) string {
	return func(r *record) string {
		if r.cost == nil {
			return ""
		}
		return v(r)
	}
}

func month(t time.Time, plus int) string {
	return stamp(time.Date(t.Year(), t.Month()+time.Month(plus), 1, 0, 0, 0, 0, time.UTC))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// columns are all that is written, in the order of their names; extras last.
func columns() []column {
	provider := func(r *record) string { return r.party.Provider }
	account := func(r *record) string { return r.party.Account }
	project := func(r *record) string { return r.owner.Project }
	price := func(r *record) string { return number(r.price) }
	sku := func(r *record) string { return string(r.kind) }
	unit := when(func(r *record) string { return r.kind.Unit().Name })
	quantity := when(func(r *record) string { return ratio(r.value, r.kind.Unit().Size) })
	return []column{
		{name: "BilledCost", number: true, value: cost},
		{name: "BillingAccountId", value: account},
		{name: "BillingAccountName", value: account},
		{name: "BillingCurrency", value: func(r *record) string { return r.currency }},
		{name: "BillingPeriodEnd", value: func(r *record) string { return month(r.day, 1) }},
		{name: "BillingPeriodStart", value: func(r *record) string { return month(r.day, 0) }},
		{name: "ChargeCategory", value: text("Usage")},
		{name: "ChargeClass", value: text("")},
		{name: "ChargeDescription", value: describe},
		{name: "ChargeFrequency", value: text("Usage-Based")},
		{name: "ChargePeriodEnd", value: func(r *record) string { return stamp(r.day.AddDate(0, 0, 1)) }},
		{name: "ChargePeriodStart", value: func(r *record) string { return stamp(r.day) }},
		{name: "ConsumedQuantity", number: true, value: func(r *record) string { return ratio(r.value, 1) }},
		{name: "ConsumedUnit", value: func(r *record) string { return r.kind.Unit().Base }},
		{name: "ContractedCost", number: true, value: cost},
		{name: "EffectiveCost", number: true, value: cost},
		{name: "HostProviderName", value: provider},
		{name: "InvoiceIssuerName", value: func(r *record) string { return r.party.Issuer }},
		{name: "ListCost", number: true, value: cost},
		{name: "ListUnitPrice", number: true, value: price},
		{name: "PricingCategory", value: when(text("Standard"))},
		{name: "PricingQuantity", number: true, value: quantity},
		{name: "PricingUnit", value: unit},
		{name: "ProviderName", value: provider},
		{name: "PublisherName", value: provider},
		{name: "ResourceId", value: func(r *record) string { return r.resource }},
		{name: "ResourceName", value: func(r *record) string { return r.resource }},
		{name: "ResourceType", value: func(r *record) string { return r.kindType }},
		{name: "ServiceCategory", value: text("Compute")},
		{name: "ServiceName", value: text("Deskfork Desktops")},
		{name: "ServiceProviderName", value: provider},
		{name: "ServiceSubcategory", value: text("Virtual Machines")},
		{name: "SkuId", value: sku},
		{name: "SkuMeter", value: sku},
		{name: "SkuPriceId", value: when(func(r *record) string { return r.card + "/" + string(r.kind) })},
		{name: "SubAccountId", value: project},
		{name: "SubAccountName", value: project},
		{name: "Tags", value: tags, isTags: true},
		{name: "x_MissingReason", value: func(r *record) string {
			if r.cost == nil {
				return billing.WarnCost
			}
			return ""
		}},
	}
}

func describe(r *record) string {
	return fmt.Sprintf("%s of %s %s", r.kind.Unit().Name, strings.ToLower(r.kindType), r.resource)
}

// tags is a JSON object of what else is known of the owner.
func tags(r *record) string {
	m := map[string]string{}
	if r.owner.Session != "" {
		m["session"] = r.owner.Session
	}
	if r.owner.Agent != "" {
		m["agent"] = r.owner.Agent
	}
	if len(m) == 0 {
		return ""
	}
	b, _ := json.Marshal(m) // strings alone: never fails
	return string(b)
}

// records sums charges up.
func records(charges []billing.Charge, party Party) []*record {
	party.setDefaults()
	by := map[key]*record{}
	for _, c := range charges {
		k := key{
			day: c.Row.Start.UTC().Truncate(24 * time.Hour), owner: c.Row.Owner, kind: c.Row.Kind,
			currency: c.Currency, card: c.Card, rate: number(c.Price),
		}
		switch c.Row.Kind {
		case billing.SessionAliveSeconds:
			k.resource, k.kindType = cmp.Or(c.Row.Owner.Session, c.Row.Incarnation), "Session"
		default:
			k.resource, k.kindType = cmp.Or(c.Row.Owner.Desktop, c.Row.Incarnation), "Desktop"
		}
		r := by[k]
		if r == nil {
			r = &record{key: k, party: party, price: c.Price}
			by[k] = r
		}
		r.value += c.Row.Value
		if c.Cost != nil {
			sum := *c.Cost
			if r.cost != nil {
				sum = sum.Add(*r.cost)
			}
			r.cost = &sum
		}
	}
	list := make([]*record, 0, len(by))
	for _, r := range by {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *record) int {
		return cmp.Or(a.day.Compare(b.day), cmp.Compare(a.owner.Project, b.owner.Project), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.owner.Session, b.owner.Session), cmp.Compare(a.owner.Agent, b.owner.Agent),
			cmp.Compare(a.owner.Desktop, b.owner.Desktop), cmp.Compare(a.card, b.card), cmp.Compare(a.rate, b.rate))
	})
	return list
}

// WriteCSV writes charges with a line of names first.
func WriteCSV(w io.Writer, charges []billing.Charge, party Party) error {
	cols := columns()
	out := csv.NewWriter(w)
	line := make([]string, len(cols))
	for i, c := range cols {
		line[i] = c.name
	}
	_ = out.Write(line) // Error tells below
	for _, r := range records(charges, party) {
		for i, c := range cols {
			line[i] = c.value(r)
		}
		_ = out.Write(line)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write FOCUS as CSV: %w", err)
	}
	return nil
}

// WriteJSONL writes charges as one JSON object a line, with null where there is
// nothing. Numbers are JSON numbers with all their digits.
func WriteJSONL(w io.Writer, charges []billing.Charge, party Party) error {
	cols := columns()
	var b strings.Builder
	for _, r := range records(charges, party) {
		b.Reset()
		for i, c := range cols {
			b.WriteString(map[bool]string{true: "{", false: ","}[i == 0] + quote(c.name) + ":")
			switch v := c.value(r); {
			case v == "":
				b.WriteString("null")
			case c.number, c.isTags:
				b.WriteString(v)
			default:
				b.WriteString(quote(v))
			}
		}
		b.WriteString("}\n")
		if _, err := io.WriteString(w, b.String()); err != nil {
			return fmt.Errorf("write FOCUS as JSON lines: %w", err)
		}
	}
	return nil
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string never fails
	return string(b)
}
