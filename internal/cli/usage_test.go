package cli_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

func TestUsage(t *testing.T) {
	r := newRun(clienttest.New(t), "")
	if status := r.do(t, "usage"); status != 0 {
		t.Fatalf("status %d: %s", status, &r.err)
	}
	want := `project default, 2026-11-01 to 2026-11-05 (UTC)

KIND                     QUANTITY   UNIT    COST
sandbox_active_seconds   1.500000   Hours   0.075000 USD
egress_bytes             2.000000   GiB     not known
total                                       not known
provider_cost_unavailable: the server's rate card has no price for some of it
period_open: the period is not over; more may come

sandbox_active_seconds by day
2026-11-02  ████████████████████████████████████████  3600
2026-11-03                                            0
2026-11-04  ████████████████████                      1800
`
	if d := cmp.Diff(want, r.out.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestUsageAsksAndWrites(t *testing.T) {
	s := clienttest.New(t)
	r := newRun(s, "")
	status := r.do(t, "usage", "--start", "2026-11-01", "--end", "2026-11-30", "--project", "p", "--session", "s", "--focus", "csv")
	if status != 0 || r.out.String() != "FOCUS as csv\n" {
		t.Errorf("%d, %s%s", status, &r.out, &r.err)
	}
	if want := "GET /v1/cost/focus?end=2026-11-30&format=csv&project=p&session=s&start=2026-11-01"; !slices.Contains(s.Requests(), want) {
		t.Errorf("requests %v lack %s", s.Requests(), want)
	}
	r = newRun(s, "")
	var report api.CostReport
	if status := r.do(t, "usage", "--json"); status != 0 || json.Unmarshal(r.out.Bytes(), &report) != nil || report.Total != nil {
		t.Errorf("%d, %s", status, &r.out)
	}
	if !strings.Contains(r.out.String(), `"total_cost": null`) {
		t.Error("what is missing is not null")
	}
}
