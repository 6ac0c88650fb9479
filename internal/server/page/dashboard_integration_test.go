//go:build integration

package page_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/test/browser"
)

// TestDashboard: a person opens the dashboard by its link, sees desktops as they are,
// and does all that can be done to them, by keyboard alone.
func TestDashboard(t *testing.T) {
	d := newDoor(t)
	ctx := t.Context()
	first := d.Create(api.CreateDesktop{Name: "checkout", Labels: map[string]string{"team": "red", "run": "4711"}})
	for _, req := range []api.CreateDesktop{
		{Name: "crawler", Labels: map[string]string{"team": "blue"}},
		{Name: "resting", Labels: map[string]string{"team": "blue"}},
		{Name: "asleep"},
	} {
		d.Create(req)
	}
	if _, err := d.client.Desktop(first.ID).Fork(ctx, api.Fork{Count: 2, Name: "branch"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Host.Power.Pause(ctx, first.Project, "resting"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Host.Power.Suspend(ctx, first.Project, "asleep"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.client.Desktop("crawler").Holding("robot-7", 0).Control().Change(ctx, api.ChangeControl{Action: api.ControlTake, TTLS: 600}, 0); err != nil {
		t.Fatal(err)
	}
	admin := d.link("admin")
	script := browser.Start(t, "testdata/dashboard.js", map[string]string{
		"server": d.url, "admin": admin.URL, "view": d.link("view").URL, "pictures": t.ArtifactDir(),
	}, 5*time.Minute)
	var step string
	script.Next(&step)
	if step != "acted" {
		t.Fatalf("the script says %q", step)
	}
	got := d.names()
	slices.Sort(got)
	want := []string{"asleep ready", "branch-1 ready", "checkout ready", "crawler ready", "made ready", "resting paused", "twin ready"}
	for end := time.Now().Add(30 * time.Second); !slices.Equal(got, want) && time.Now().Before(end); {
		<-time.After(20 * time.Millisecond) // the last one may still start
		got = d.names()
		slices.Sort(got)
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
	if list, err := d.client.Snapshots().List(ctx); err != nil || !slices.ContainsFunc(list, func(s api.Snapshot) bool { return s.Name == "kept" }) {
		t.Errorf("snapshots %+v, %v", list, err)
	}
	// What others do shows at once.
	if err := d.client.Desktop("made").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	d.repaint()
	script.Say("deleted")
	script.Next(&step)
	// A glance is no use: nobody is kept from his rest by it.
	if v, err := d.client.Desktop("resting").Get(ctx); err != nil || v.State != api.StatePaused {
		t.Errorf("after many glances the desktop at rest is %+v, %v", v.State, err)
	}
	if err := d.client.ProjectTickets().Delete(ctx, admin.ID); err != nil {
		t.Fatal(err)
	}
	script.Say("revoked")
	script.Wait()
}
