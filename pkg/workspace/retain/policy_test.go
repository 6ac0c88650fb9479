package retain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	var all []workspace.Checkpoint
	for _, at := range []string{
		"2026-01-01 10:00", "2026-01-31 23:59", "2026-02-01 00:00", "2026-03-02 08:00", "2026-03-03 08:00",
		"2026-03-03 09:10", "2026-03-03 09:50", "2026-03-03 11:00",
	} {
		created, err := time.Parse("2006-01-02 15:04", at)
		if err != nil {
			t.Fatal(err)
		}
		r := workspace.Ref{Workspace: "w", Checkpoint: workspace.CheckpointID(fmt.Sprint("c", len(all)))}
		all = append(all, workspace.Checkpoint{Ref: r, Created: created.In(time.FixedZone("x", 3600))})
	}
	for _, c := range []struct {
		policy retain.Policy
		want   string
	}{
		{retain.Policy{}, "0 1 2 3 4 5 6 7"},
		{retain.Policy{Last: 3}, "5 6 7"},
		{retain.Policy{Last: 100}, "0 1 2 3 4 5 6 7"},
		{retain.Policy{Hourly: 2}, "6 7"},
		{retain.Policy{Hourly: 3}, "4 6 7"},
		{retain.Policy{Daily: 2}, "3 7"},
		{retain.Policy{Weekly: 2}, "2 7"},
		{retain.Policy{Monthly: 12}, "1 2 7"},
		{retain.Policy{Last: 1, Daily: 2, Monthly: 3}, "1 2 3 7"},
	} {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var got []string
		for r := range c.policy.Keep(all) {
			got = append(got, strings.TrimPrefix(string(r.Checkpoint), "c"))
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v keeps %v, want %s", c.policy, got, c.want)
		}
	}
	if len((retain.Policy{Last: 1}).Keep(nil)) != 0 {
		t.Error("something of nothing is kept")
	}
}
