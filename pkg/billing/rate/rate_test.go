package rate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/rate"
)

const good = `# What we ask for.
deskfork-rates 1

card 2026-11 from 2026-11-01
sandbox_active_seconds  0.05  USD per Hour   # of a running desktop
egress_bytes            0     USD per GiB
card 2027 from 2027-01-01
sandbox_active_seconds  0.03  EUR per Hour
`

func parse(t *testing.T, text string) *rate.Book {
	t.Helper()
	b, err := rate.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCharge(t *testing.T) {
	t.Parallel()
	b := parse(t, good)
	for name, tt := range map[string]struct {
		kind  billing.Kind
		day   string
		value int64
		want  string
	}{
		"priced":         {billing.SandboxActiveSeconds, "2026-11-01", 1800, "0.025000 USD 2026-11"},
		"to the second":  {billing.SandboxActiveSeconds, "2026-12-31", 1, "0.000014 USD 2026-11"},
		"the next card":  {billing.SandboxActiveSeconds, "2027-01-01", 3600, "0.030000 EUR 2027"},
		"free":           {billing.EgressBytes, "2026-11-02", 1 << 40, "0.000000 USD 2026-11"},
		"not taken over": {billing.EgressBytes, "2027-01-02", 1 << 40, "missing"},
		"no rate":        {billing.VCPUSeconds, "2026-11-02", 1, "missing"},
		"before all":     {billing.SandboxActiveSeconds, "2026-10-31", 1, "missing"},
	} {
		at, err := time.Parse(time.DateOnly, tt.day)
		if err != nil {
			t.Fatal(err)
		}
		c := b.Charge(billing.Row{Kind: tt.kind, Start: at, Value: tt.value})
		got := "missing"
		if c.Cost != nil {
			got = fmt.Sprint(c.Cost, " ", c.Currency, " ", c.Card)
		} else if c.Price != nil || c.Currency != "" || c.Card != "" {
			t.Errorf("%s: half a price: %+v", name, c)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestParseNamesLines(t *testing.T) {
	t.Parallel()
	const head = "deskfork-rates 1\n"
	const card = head + "card a from 2026-11-01\n"
	for name, tt := range map[string]struct {
		text  string
		lines []int
		says  string
	}{
		"empty":           {"", []int{1}, "ends before"},
		"comment alone":   {"# x\n", []int{2}, "ends before"},
		"another format":  {"\ndeskfork-rates 2\nrubbish", []int{2}, "later format"},
		"price too early": {head + "vcpu_seconds 1 USD per vCPU-Hour\n", []int{2}, "before the first"},
		"kind":            {card + "seconds 1 USD per Hour\n", []int{3}, "kinds are sandbox_active_seconds"},
		"unit":            {card + "vcpu_seconds 1 USD per Hour\n", []int{3}, "per vCPU-Hour"},
		"no unit":         {card + "vcpu_seconds 1 USD\n", []int{3}, "per vCPU-Hour"},
		"negative":        {card + "vcpu_seconds -1 USD per vCPU-Hour\n", []int{3}, "want a decimal"},
		"float":           {card + "vcpu_seconds 1e-3 USD per vCPU-Hour\n", []int{3}, "want a decimal"},
		"currency":        {card + "vcpu_seconds 1 usd per vCPU-Hour\n", []int{3}, "three capital letters"},
		"twice":           {card + "vcpu_seconds 1 USD per vCPU-Hour\n\nvcpu_seconds 1 USD per vCPU-Hour\n", []int{5}, "twice in one card"},
		"card twice":      {card + "card a from 2026-12-01\n", []int{3}, "here twice"},
		"card too early":  {card + "card b from 2026-11-01\nvcpu_seconds 1 USD per vCPU-Hour\n", []int{3}, "not after"},
		"day":             {head + "card a from 2026-02-30\n", []int{2}, "YYYY-MM-DD"},
		"version":         {head + "card a/b from 2026-02-03\n", []int{2}, "letters, digits"},
		"long line":       {card + strings.Repeat("x", 2000), []int{3}, "longer than"},
		"all are told":    {card + "x\n# fine\ny\n", []int{3, 5}, "unknown kind"},
	} {
		_, err := rate.Parse(strings.NewReader(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v does not say %q", name, err, tt.says)
			continue
		}
		var lines []int
		all := []error{err}
		if j, ok := err.(interface{ Unwrap() []error }); ok {
			all = j.Unwrap()
		}
		for _, e := range all {
			if le, ok := errors.AsType[*rate.LineError](e); ok {
				lines = append(lines, le.Line)
			}
		}
		if d := cmp.Diff(tt.lines, lines); d != "" {
			t.Errorf("%s: lines (-want +got):\n%s", name, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("deskfork-rates 1\ncard a from 2026-11-01\nvcpu_seconds 1 USD")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := rate.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for i, c := range b.Cards {
			if i > 0 && !c.From.After(b.Cards[i-1].From) {
				t.Errorf("card %s is out of order", c.Version)
			}
			for k, r := range c.Rates {
				if !k.Valid() || len(r.Currency) != 3 {
					t.Errorf("%s: %+v", k, r)
				}
				if got := b.Charge(billing.Row{Kind: k, Start: c.From, Value: 1}); got.Cost == nil || got.Card != c.Version {
					t.Errorf("%s of card %s is charged %+v", k, c.Version, got)
				}
			}
		}
	})
}
