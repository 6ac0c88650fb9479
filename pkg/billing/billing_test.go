package billing_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/billing"
)

func amount(t *testing.T, s string) *billing.Amount {
	t.Helper()
	a, err := billing.ParseAmount(s)
	if err != nil {
		t.Fatal(err)
	}
	return &a
}

func TestAmountIsExact(t *testing.T) {
	t.Parallel()
	var sum billing.Amount
	tenth := amount(t, "0.1")
	for range 3 {
		sum = sum.Add(*tenth)
	}
	if sum.Cmp(*amount(t, "0.3")) != 0 {
		t.Errorf("three tenths are %s", sum)
	}
	var third billing.Amount
	for range 3 {
		third = third.Add(amount(t, "1").Times(1, 3))
	}
	if third.Cmp(*amount(t, "1")) != 0 {
		t.Errorf("three thirds are %s", third.Text(30))
	}
	if got := amount(t, "0.05").Times(1_000_000_007, 3600).Text(6); got != "13888.888986" {
		t.Errorf("got %s", got)
	}
	if got := amount(t, "0.0000005").String(); got != "0.000001" {
		t.Errorf("half of the last digit becomes %s", got)
	}
}

func TestAmountRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", ".", "1.", ".5", "-1", "+1", "1e3", "1/3", "0x10", "1_000", " 1", "1 ", "1,5", "NaN", "Inf", "١",
		strings.Repeat("9", 16), "0." + strings.Repeat("1", 13),
	} {
		if a, err := billing.ParseAmount(s); !errors.Is(err, billing.ErrInvalid) {
			t.Errorf("%q is read as %s, %v", s, a, err)
		}
	}
}

func FuzzParseAmount(f *testing.F) {
	f.Add("0.05")
	f.Add("1e9")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := billing.ParseAmount(s)
		if err != nil {
			return
		}
		b, err := billing.ParseAmount(a.Text(12))
		if err != nil || a.Cmp(b) != 0 {
			t.Errorf("%q is %s when it is read again: %v", s, b, err)
		}
	})
}

func TestAmountInJSON(t *testing.T) {
	t.Parallel()
	type box struct{ Cost *billing.Amount }
	b, err := json.Marshal([]box{{amount(t, "12.5")}, {}})
	if err != nil || string(b) != `[{"Cost":"12.500000"},{"Cost":null}]` {
		t.Errorf("got %s, %v", b, err)
	}
	var back []box
	if err := json.Unmarshal(b, &back); err != nil || back[0].Cost.Cmp(*amount(t, "12.5")) != 0 || back[1].Cost != nil {
		t.Errorf("got %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`[{"Cost":12.5}]`), &back); err == nil {
		t.Error("a float was read as money")
	}
}

func TestTotal(t *testing.T) {
	t.Parallel()
	usd := billing.Charge{Cost: amount(t, "1.5"), Currency: "USD"}
	eur := billing.Charge{Cost: amount(t, "2"), Currency: "EUR"}
	for name, tt := range map[string]struct {
		charges  []billing.Charge
		total    string // empty: nil
		currency string
		warnings []string
	}{
		"none":        {nil, "0.000000", "", nil},
		"one":         {[]billing.Charge{usd, usd}, "3.000000", "USD", nil},
		"no cost":     {[]billing.Charge{usd, {Currency: "USD"}}, "", "", []string{billing.WarnCost}},
		"no currency": {[]billing.Charge{usd, {Cost: amount(t, "1")}}, "", "", []string{billing.WarnCurrency}},
		"no rate":     {[]billing.Charge{{}, usd}, "", "", []string{billing.WarnCost, billing.WarnCurrency}},
		"mixed":       {[]billing.Charge{usd, eur}, "", "", []string{billing.WarnMixed}},
		"all": {[]billing.Charge{{}, eur, usd}, "", "", []string{
			billing.WarnCost, billing.WarnCurrency, billing.WarnMixed,
		}},
	} {
		total, currency, warnings := billing.Total(tt.charges)
		got := ""
		if total != nil {
			got = total.String()
		}
		if got != tt.total || currency != tt.currency {
			t.Errorf("%s: got %q %q, want %q %q", name, got, currency, tt.total, tt.currency)
		}
		if d := cmp.Diff(tt.warnings, warnings); d != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", name, d)
		}
	}
}

func TestRowValidate(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	good := billing.Row{
		Incarnation: "i1", Kind: billing.VCPUSeconds, Start: day, End: day.Add(24 * time.Hour), Value: 1, Owner: billing.Owner{Project: "p"},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*billing.Row){
		"incarnation": func(r *billing.Row) { r.Incarnation = "" },
		"kind":        func(r *billing.Row) { r.Kind = "seconds" },
		"value":       func(r *billing.Row) { r.Value = 0 },
		"project":     func(r *billing.Row) { r.Owner.Project = "" },
		"ends":        func(r *billing.Row) { r.End = r.Start },
		"longer":      func(r *billing.Row) { r.End = r.End.Add(1) },
	} {
		r := good
		change(&r)
		if err := r.Validate(); !errors.Is(err, billing.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("without a good %s: %v", name, err)
		}
	}
}

func TestEveryKindHasAUnit(t *testing.T) {
	t.Parallel()
	for _, k := range billing.Kinds() {
		if u := k.Unit(); u.Size <= 1 || u.Name == "Units" {
			t.Errorf("%s is counted in %+v", k, u)
		}
	}
	if billing.Kind("hours").Valid() {
		t.Error("any kind is valid")
	}
}
