//go:build integration

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// proofEvery is how old the last proof of a machine's life may be when the daemon
// that would have made another was dead.
const proofEvery = 30 * time.Second

// life is what a test knows of the time that a desktop's vCPUs ran: between what
// was asked for and what was answered nobody knows whether they did.
type life struct {
	least, most time.Duration
	starts      int // of incarnations, and of their second and later lives in a pause
	up          bool
	first, last time.Time // running since, at the earliest and at the latest
}

func (r *life) start(asked, answered time.Time) {
	if !r.up {
		r.up, r.first, r.last = true, asked, answered
		r.starts++
	}
}

func (r *life) stop(asked, answered time.Time) {
	if r.up {
		r.up = false
		r.least += max(0, asked.Sub(r.last))
		r.most += answered.Sub(r.first)
	}
}

// ledger is the reference that the host's rows are held against.
type ledger map[string]*life

// see writes down what the host says of its desktops after something that was
// asked for at a time.
func (l ledger) see(all []api.Desktop, asked time.Time) {
	now := time.Now()
	for id, r := range l {
		if !slices.ContainsFunc(all, func(v api.Desktop) bool { return v.ID == id }) {
			r.stop(asked, now)
		}
	}
	for _, v := range all {
		r := l[v.ID]
		if r == nil {
			r = &life{}
			l[v.ID] = r
		}
		if v.State == api.StateReady {
			r.start(asked, now)
		} else {
			r.stop(asked, now)
		}
	}
}

// billed takes desktops through a storm of verbs, and of deaths of the daemon and
// of machines, and demands that the host bills no second more and no second less
// than what ran, but for those between a machine's last proof of life and its
// death under nobody's eyes.
func (a *apart) billed(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a storm is no secret
	steps := 14
	if long(t) {
		steps = 120
	}
	a.empty(t)
	book := ledger{}
	began := time.Now()
	for range steps {
		asked := time.Now()
		what := a.blow(t, rng, book)
		all := a.settled(t)
		book.see(all, asked)
		t.Logf("%s: %d desktops after %s", what, len(all), time.Since(asked).Round(100*time.Millisecond))
	}
	asked := time.Now()
	a.empty(t)
	book.see(nil, asked)
	a.compare(t, book, began)
}

// blow does one thing to the host, and says what.
func (a *apart) blow(t *testing.T, rng *rand.Rand, book ledger) string {
	t.Helper()
	all := a.settled(t)
	if len(all) == 0 {
		a.clone(t)
		return "create"
	}
	v := all[rng.IntN(len(all))]
	d := a.Client.Desktop(v.ID)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	verbs := map[string]func() error{
		"pause":   func() error { _, err := d.Pause(ctx); return err },
		"suspend": func() error { _, err := d.Suspend(ctx); return err },
		"fork": func() error {
			_, err := d.Fork(ctx, api.Fork{Count: 1}, client.Until(api.StageLink), client.Within(3*time.Minute))
			return err
		},
		"nothing": func() error { <-time.After(2 * time.Second); return nil },
	}
	switch v.State {
	case api.StateReady:
	case api.StatePaused, api.StateSuspended:
		verbs = map[string]func() error{"resume": func() error { _, err := d.Resume(ctx); return err }}
	default: // it has failed
		verbs = map[string]func() error{"delete": func() error { return d.Delete(ctx) }}
	}
	if len(all) > 3 {
		verbs = map[string]func() error{"delete": func() error { return d.Delete(ctx) }}
	}
	names := make([]string, 0, len(verbs))
	for name := range verbs {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[rng.IntN(len(names))]
	what := name + " " + v.ID
	unseen := func() { // a machine that is found at rest counts up to its last proof
		if r := book[v.ID]; r != nil {
			r.least -= proofEvery + 5*time.Second
		}
	}
	switch death := rng.IntN(5); {
	case death == 0: // of the daemon, in the middle of the verb
		ended := make(chan struct{})
		go func() { defer close(ended); _ = verbs[name]() }()
		<-time.After(time.Duration(rng.Int64N(int64(time.Second))))
		a.Kill()
		cancel()
		<-ended
		unseen()
		what += ", vmhost killed"
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	case death == 1 && v.State == api.StateReady: // of the machine, while nobody looks
		a.Kill()
		for _, pid := range pidsOf(t, v.Incarnation) {
			kill(t, pid)
		}
		unseen()
		what = "vmhost and the machine of " + v.ID + " killed"
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	default:
		if err := verbs[name](); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	return what
}

// compare holds the rows that were made since a time against a book.
func (a *apart) compare(t *testing.T, book ledger, since time.Time) {
	t.Helper()
	var wrong []string
	end := time.Now().Add(time.Minute)
	for {
		rows := usageRows(t, a.Daemon, since)
		if wrong = differences(rows, book); len(wrong) == 0 || time.Now().After(end) {
			break
		}
		<-time.After(time.Second) // a row is written a moment after its end
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

// usageRows are those of a host that end after a time.
func usageRows(t *testing.T, of *harness.Daemon, since time.Time) []api.UsageEvent {
	t.Helper()
	var rows []api.UsageEvent
	last := int64(0)
	for {
		page, err := of.Client.Usage().Events(t.Context(), api.UsageQuery{Since: last, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) == 0 {
			return rows
		}
		for _, e := range page.Events {
			last = e.ID
			if e.End.After(since) {
				rows = append(rows, e)
			}
		}
	}
}

// differences says what is wrong with rows.
func differences(rows []api.UsageEvent, book ledger) []string {
	var wrong []string
	type key struct{ incarnation, kind string }
	seen := map[key][]api.UsageEvent{}
	active, cpu := map[string]time.Duration{}, map[string]time.Duration{}
	for _, e := range rows {
		k := key{e.Incarnation, e.Kind}
		for _, other := range seen[k] {
			if e.Start.Before(other.End) && other.Start.Before(e.End) {
				wrong = append(wrong, fmt.Sprintf("counted twice: %+v and %+v", e, other))
			}
		}
		seen[k] = append(seen[k], e)
		switch e.Kind {
		case "sandbox_active_seconds":
			active[e.Desktop] += time.Duration(e.Value) * time.Second
		case "vcpu_seconds":
			cpu[e.Desktop] += time.Duration(e.Value) * time.Second
		}
	}
	for id, r := range book {
		// Less than a unit is dropped at the end of an incarnation.
		least, most := r.least-time.Duration(r.starts)*time.Second, r.most+time.Second
		if got := active[id]; got < least || got > most {
			wrong = append(wrong, fmt.Sprintf("%s: %v active, want between %v and %v", id, got, least, most))
		}
		if got, of := cpu[id], active[id]; got < of || got > 8*(of+time.Duration(r.starts)*time.Second) {
			wrong = append(wrong, fmt.Sprintf("%s: %v of vCPUs in %v", id, got, of))
		}
	}
	return wrong
}
