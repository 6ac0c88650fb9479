package focus_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/focus"
	"github.com/deskfork/deskfork/pkg/billing/rate"
)

var update = flag.Bool("update", false, "write golden files")

// mandatory are the mandatory columns of "Cost and Usage" in FOCUS 1.3.
const mandatory = `BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory
	ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost HostProviderName InvoiceIssuerName
	ListCost PricingQuantity PricingUnit ProviderName PublisherName ServiceCategory ServiceName ServiceProviderName`

const card = `deskfork-rates 1
card v1 from 2026-11-01
sandbox_active_seconds 0.05 USD per Hour
egress_bytes 0.02 USD per GiB
session_alive_seconds 0.001 EUR per Hour
card v2 from 2026-12-01
sandbox_active_seconds 0.04 USD per Hour
`

func charges(t *testing.T) []billing.Charge {
	t.Helper()
	book, err := rate.Parse(strings.NewReader(card))
	if err != nil {
		t.Fatal(err)
	}
	night := time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	row := func(k billing.Kind, at time.Time, value int64) billing.Charge {
		return book.Charge(billing.Row{
			Incarnation: "i1", Kind: k, Start: at, End: at.Add(time.Hour), Value: value,
			Owner: billing.Owner{Project: "acme", Session: `se"ss,1`, Agent: "<bot>", Desktop: "d1"},
		})
	}
	bare := row(billing.SandboxActiveSeconds, night, 1)
	bare.Row.Owner = billing.Owner{Project: "acme"}
	return []billing.Charge{
		row(billing.SandboxActiveSeconds, night, 3600), row(billing.SandboxActiveSeconds, night.Add(-time.Hour), 1799),
		row(billing.SandboxActiveSeconds, night.Add(time.Hour), 60), row(billing.EgressBytes, night, 3<<29),
		row(billing.VCPUSeconds, night, 7200), row(billing.SessionAliveSeconds, night, 3600), bare,
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := focus.WriteCSV(&b, charges(t), focus.Party{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "usage.csv", b.Bytes())
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(mandatory) {
		if !slices.Contains(lines[0], name) {
			t.Errorf("column %s is missing", name)
		}
	}
	if !slices.IsSorted(lines[0]) {
		t.Errorf("columns are not in order: %v", lines[0])
	}
}

func TestJSONL(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := focus.WriteJSONL(&b, charges(t), focus.Party{Account: "a1", Issuer: "Issuer Ltd", Provider: "Prov"}); err != nil {
		t.Fatal(err)
	}
	golden(t, "usage.jsonl", b.Bytes())
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m["SkuId"] == string(billing.VCPUSeconds) && (m["BilledCost"] != nil || m["x_MissingReason"] != billing.WarnCost) {
			t.Errorf("what has no rate costs %v", m["BilledCost"])
		}
	}
}

// failing takes nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWritersFail(t *testing.T) {
	t.Parallel()
	for _, write := range []func(io.Writer, []billing.Charge, focus.Party) error{focus.WriteCSV, focus.WriteJSONL} {
		if err := write(failing{}, charges(t), focus.Party{}); err == nil {
			t.Error("a failed write is not told")
		}
	}
}

func TestPeriod(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		start, end string
		days, want int // want 0: refused
	}{
		"a day": {"2026-11-01", "2026-11-01", 1, 1}, "a month": {"2026-11-01", "2026-11-30", 0, 30}, "leap": {"2028-02-01", "2028-03-01", 30, 30},
		"wrong days": {"2026-11-01", "2026-11-30", 29, 0}, "backwards": {"2026-11-02", "2026-11-01", 0, 0},
		"time": {"2026-11-01T00:00:00Z", "2026-11-01", 0, 0}, "no end": {"2026-11-01", "", 0, 0}, "too long": {"2020-01-01", "2026-01-01", 0, 0},
	} {
		p, err := focus.ParsePeriod(tt.start, tt.end, tt.days)
		if (err == nil) != (tt.want > 0) || p.Days != tt.want {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		if from, to := p.Bounds(); err == nil && to.Sub(from) != time.Duration(tt.want)*24*time.Hour {
			t.Errorf("%s: from %s to %s", name, from, to)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	p, err := focus.ParsePeriod("2026-11-30", "2026-11-30", 1)
	if err != nil {
		t.Fatal(err)
	}
	all := charges(t)
	later := time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		charges      []billing.Charge
		now          time.Time
		total        string
		completeness string
		warnings     []string
	}{
		"whole":      {all[:2], later, "0.074986 USD", focus.Complete, []string{}},
		"nothing":    {nil, later, "0.000000 ", focus.Complete, []string{}},
		"not over":   {all[:2], later.Add(-25 * time.Hour), "0.074986 USD", focus.Partial, []string{focus.WarnOpen}},
		"no rate":    {all[4:5], later, "null", focus.Unavailable, []string{billing.WarnCost, billing.WarnCurrency}},
		"one lacks":  {all[:5], later, "null", focus.Partial, []string{billing.WarnCost, billing.WarnCurrency}},
		"currencies": {[]billing.Charge{all[0], all[5]}, later, "null", focus.Partial, []string{billing.WarnMixed}},
	} {
		r := focus.NewReport(p, focus.Scope{Type: "project", ID: "acme"}, tt.charges, tt.now)
		got := "null"
		if r.Total != nil {
			got = r.Total.Amount + " " + r.Total.Currency
		}
		if got != tt.total || r.Attribution.Completeness != tt.completeness || !slices.Equal(r.Attribution.Warnings, tt.warnings) {
			t.Errorf("%s: total %s, %+v", name, got, r.Attribution)
		}
	}
	r := focus.NewReport(p, focus.Scope{}, all, later)
	if len(r.Lines) != 4 || r.Lines[0].Quantity != "1.516667" || r.Lines[0].Cost == nil || r.Lines[2].Cost != nil {
		t.Errorf("lines %+v", r.Lines)
	}
}
