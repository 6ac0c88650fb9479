package host_test

import (
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/meter"
	"github.com/deskfork/deskfork/pkg/billing/sqlstore"
)

// browser is what happens to the browser of a desktop, on a host whose clocks stand
// unless they are moved.
type browser struct {
	*hosttest.Fixture
	*clocks

	t *testing.T
}

// desk is the desktop as it is now.
func (b browser) desk(name string) api.Desktop {
	b.t.Helper()
	v, err := b.Host.Desktop(patient(b.t), project, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// shows opens a page in a desktop or closes it, and waits until that is written.
func (b browser) shows(name string, open bool) {
	b.t.Helper()
	b.Machine(b.desk(name).ID).Guest.Desktop.Browse(open)
	b.written(name, open)
}

// written waits until the ledger knows at this instant whether a page is open.
func (b browser) written(name string, open bool) {
	b.t.Helper()
	inc := b.desk(name).Incarnation
	s, err := sqlstore.OpenSQLite(b.t.Context(), filepath.Join(b.Config.DataDir, usage.DatabaseName))
	if err != nil {
		b.t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it was read alone
	for ctx := patient(b.t); ; {
		marks, err := s.Marks(ctx, "host")
		if err != nil {
			b.t.Fatalf("wait for %s to be open: %v: %v", name, open, err)
		}
		for _, m := range marks {
			st, err := meter.Decode(m.Body)
			if err != nil {
				b.t.Fatal(err)
			}
			if m.Incarnation == inc && st.PagesOpen > 0 == open && st.Last == b.read().NS {
				return
			}
		}
		<-time.After(5 * time.Millisecond)
	}
}

// must fails the test.
func (b browser) must(_ api.Desktop, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// proves has the ledger take a proof of life of a desktop.
func (b browser) proves(name string) {
	b.t.Helper()
	b.must(b.Host.Power.Pause(patient(b.t), project, name))
	b.must(b.Host.Power.Resume(patient(b.t), project, name))
	b.Host.Usage.Paused("nobody") // writes the resume
}

// reported demands a quantity of the kind in what "vmhost usage" shows now, of
// incarnations too that go on.
func (b browser) reported(want string) {
	b.t.Helper()
	r, err := b.Host.Usage.Report(b.t.Context(), usage.Asked{Project: project}, b.read().Wall)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, l := range r.Lines {
		if l.Kind == string(billing.BrowserActiveSeconds) {
			if l.Quantity != want {
				b.t.Errorf("reported %s %s, want %s", l.Quantity, l.Unit, want)
			}
			return
		}
	}
	if want != "" {
		b.t.Errorf("nothing of a browser is reported, want %s", want)
	}
}

// TestUsageOfABrowser: what is billed of the desktop "one", and of others by name.
func TestUsageOfABrowser(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		play func(browser)
		want map[string]int64 // by incarnation as the play has named it
	}{
		"none": {func(b browser) { b.pass(time.Hour); b.reported("") }, map[string]int64{}},
		"a page, another one, and a pause": {func(b browser) {
			b.pass(10 * time.Second)
			b.shows("one", true)
			b.pass(18 * time.Second)
			b.reported("0.005000") // hours
			b.pass(2 * time.Second)
			b.must(b.Host.Power.Pause(patient(b.t), project, "one"))
			b.pass(1000 * time.Second)
			b.must(b.Host.Power.Resume(patient(b.t), project, "one"))
			b.pass(5 * time.Second)
			b.shows("one", false)
			b.pass(50 * time.Second)
			b.shows("one", true)
			b.pass(3 * time.Second)
		}, map[string]int64{"one": 28}},
		"a suspension": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.must(b.Host.Power.Suspend(patient(b.t), project, "one"))
			b.pass(1000 * time.Second)
			b.must(b.Host.Power.Resume(patient(b.t), project, "one")) // the guest that resumes has no page
			b.pass(5 * time.Second)
			b.shows("one", true)
			b.pass(2 * time.Second)
		}, map[string]int64{"one": 10, "resumed": 2}},
		"a restore": {func(b browser) {
			_, err := b.Host.Snapshots.Create(patient(b.t), project, "one", api.CreateSnapshot{Name: "before"}, "")
			b.must(api.Desktop{}, err)
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.must(b.Host.Power.Restore(patient(b.t), project, "one", api.Restore{Snapshot: "before"}))
			b.pass(5 * time.Second)
		}, map[string]int64{"one": 10}},
		"a lost link": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.Machine(b.desk("one").ID).Guest.Cut()
			b.written("one", true) // it was asked anew
			b.pass(5 * time.Second)
		}, map[string]int64{"one": 15}},
		"a lost display": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.Machine(b.desk("one").ID).Guest.Desktop.SetUp(false)
			b.written("one", false)
			b.pass(1000 * time.Second)
			b.Machine(b.desk("one").ID).Guest.Desktop.SetUp(true)
			b.written("one", true)
			b.pass(5 * time.Second)
		}, map[string]int64{"one": 15}},
		"a fork": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.Provider.OnBorn(func(m *hosttest.Machine) { m.Guest.Desktop.Browse(true) }) // as its parent
			kids, err := b.Host.Fork(patient(b.t), project, "one", api.Fork{Count: 1}, "")
			b.must(api.Desktop{}, err)
			b.must(b.Host.Wait(patient(b.t), project, kids[0].ID, api.StageDrawn))
			b.written(kids[0].ID, true)
			b.pass(7 * time.Second)
			b.shows("one", false)
			b.pass(2 * time.Second)
		}, map[string]int64{"one": 17, "kid": 9}},
		"a crash, and it runs on": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.proves("one")
			b.pass(50 * time.Second) // nobody knows of what
			b.Crash()
			b.written("one", true)
			b.pass(4 * time.Second)
		}, map[string]int64{"one": 14}},
		"a crash, and it is gone": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.proves("one")
			b.pass(50 * time.Second)
			b.Config.Provider = gone{b.Provider}
			b.Crash()
			b.pass(4 * time.Second)
		}, map[string]int64{"one": 10}},
		"a stop of the host": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			b.Stop()
			b.pass(1000 * time.Second)
			b.Start()
			b.written("one", true)
			b.pass(5 * time.Second)
		}, map[string]int64{"one": 15}},
		"its own end": {func(b browser) {
			b.shows("one", true)
			b.pass(10 * time.Second)
			switchOff(b.t, b.Fixture, b.desk("one").ID)
			b.pass(time.Hour)
		}, map[string]int64{"one": 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, c := metered(t)
			d := f.Create(api.CreateDesktop{Name: "one"})
			b := browser{f, c, t}
			tt.play(b)
			list, err := f.Host.Desktops(patient(t), project, host.ListFilter{})
			if err != nil {
				t.Fatal(err)
			}
			names := map[string]string{d.Incarnation: "one"}
			for _, v := range list {
				switch {
				case v.ID != d.ID:
					names[v.Incarnation] = "kid"
				case v.Incarnation != d.Incarnation:
					names[v.Incarnation] = "resumed"
				}
				if err := f.Host.Delete(patient(t), project, v.ID); err != nil {
					t.Fatal(err)
				}
			}
			c.pass(time.Hour)
			f.Stop()
			got := map[string]int64{}
			for _, r := range ledger(t, f) {
				if r.Kind == billing.BrowserActiveSeconds {
					got[names[r.Incarnation]] += r.Value
				}
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("seconds of browsers: %v, want %v", got, tt.want)
			}
		})
	}
}
