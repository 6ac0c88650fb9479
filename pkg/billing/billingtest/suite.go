package billingtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/deskfork/deskfork/pkg/billing"
)

// day is where the windows of tests begin.
var day = time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)

// Row makes a valid row: the hour-th hour of an incarnation.
func Row(inc string, k billing.Kind, hour int, value int64) billing.Row {
	at := day.Add(time.Duration(hour) * time.Hour)
	return billing.Row{
		Incarnation: inc, Kind: k, Start: at, End: at.Add(time.Hour), Value: value,
		Owner: billing.Owner{Project: "p", Session: "s-" + inc, Agent: "a", Desktop: "d-" + inc},
	}
}

// Run holds a ledger to its contract. open makes an empty one.
func Run(t *testing.T, open func(t *testing.T) billing.Ledger) {
	t.Helper()
	for name, fn := range map[string]func(*testing.T, billing.Ledger){
		"rows are as they were written": testRoundTrip, "a key is written once": testOnce, "a batch is whole or not at all": testAtomic,
		"pages miss nothing": testPages, "queries select": testSelect, "acks are idempotent": testAck,
		"marks grow": testMarks, "marks have a host": testHosts, "writers side by side": testRace, "an ended context": testContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, open(t))
		})
	}
}

func commit(t *testing.T, l billing.Ledger, want int, rows ...billing.Row) {
	t.Helper()
	n, err := l.Commit(t.Context(), billing.Batch{Rows: rows})
	if err != nil || n != want {
		t.Fatalf("commit of %d rows: %d are new, want %d: %v", len(rows), n, want, err)
	}
}

func list(t *testing.T, l billing.Ledger) []billing.Row {
	t.Helper()
	rows, err := l.List(t.Context(), billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func testRoundTrip(t *testing.T, l billing.Ledger) {
	t.Helper()
	odd := Row("ü'\"\\%_", billing.EgressBytes, 1, 1<<62)
	odd.Start = odd.Start.Add(123456789)
	odd.Owner.Session = "'; DROP TABLE usage_rows; --"
	bare := billing.Row{Incarnation: "x", Kind: billing.VCPUSeconds, Start: day, End: day.Add(1), Value: 1, Owner: billing.Owner{Project: "q"}}
	before := time.Now().Add(-time.Minute)
	commit(t, l, 2, odd, bare)
	got := list(t, l)
	if d := cmp.Diff([]billing.Row{odd, bare}, got, cmpopts.IgnoreFields(billing.Row{}, "ID", "Recorded")); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
	for _, r := range got {
		if r.ID <= 0 || r.Recorded.Before(before) || r.Start.Location() != time.UTC {
			t.Errorf("got %+v", r)
		}
	}
}

func testOnce(t *testing.T, l billing.Ledger) {
	t.Helper()
	a := Row("i1", billing.VCPUSeconds, 0, 5)
	commit(t, l, 1, a, a)
	first := list(t, l)
	if n, err := l.Ack(t.Context(), "", []int64{first[0].ID}); n != 1 || err != nil {
		t.Fatalf("acked %d, %v", n, err)
	}
	other := a
	other.Value, other.End, other.Owner.Project = 7, a.End.Add(-time.Minute), "q"
	commit(t, l, 0, other)
	got := list(t, l)
	if len(got) != 1 || got[0].Value != 5 || got[0].Acked.IsZero() || got[0].ID != first[0].ID {
		t.Errorf("got %+v", got)
	}
	commit(t, l, 3, a, Row("i2", billing.VCPUSeconds, 0, 1), Row("i1", billing.EgressBytes, 0, 1), Row("i1", billing.VCPUSeconds, 1, 1))
}

func testAtomic(t *testing.T, l billing.Ledger) {
	t.Helper()
	bad := Row("i1", billing.VCPUSeconds, 1, 0)
	n, err := l.Commit(t.Context(), billing.Batch{
		Rows:  []billing.Row{Row("i1", billing.VCPUSeconds, 0, 1), bad},
		Marks: []billing.Mark{{Host: "h", Incarnation: "i1", Version: 1, Body: []byte("x")}},
	})
	if !errors.Is(err, billing.ErrInvalid) || n != 0 {
		t.Errorf("got %d, %v", n, err)
	}
	marks, err := l.Marks(t.Context(), "h")
	if got := list(t, l); len(got) != 0 || len(marks) != 0 || err != nil {
		t.Errorf("half a batch: %v, %v, %v", got, marks, err)
	}
}

func testPages(t *testing.T, l billing.Ledger) {
	t.Helper()
	var all []billing.Row
	for hour := range 23 {
		all = append(all, Row("i1", billing.VCPUSeconds, hour, int64(hour+1)))
	}
	commit(t, l, len(all), all...)
	var got []int64
	q := billing.Query{Limit: 5}
	for {
		page, err := l.Pull(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.ID <= q.Since {
				t.Fatalf("ID %d after %d", r.ID, q.Since)
			}
			q.Since = r.ID
			got = append(got, r.Value)
		}
	}
	if len(got) != 23 || !slices.IsSorted(got) {
		t.Errorf("got %v", got)
	}
	for _, limit := range []int{-1, billing.MaxLimit + 1} {
		if _, err := l.Pull(t.Context(), billing.Query{Limit: limit}); !errors.Is(err, billing.ErrInvalid) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func testSelect(t *testing.T, l billing.Ledger) {
	t.Helper()
	foreign := Row("i3", billing.VCPUSeconds, 2, 1)
	foreign.Owner.Project = "q"
	commit(t, l, 3, Row("i1", billing.VCPUSeconds, 0, 1), Row("i2", billing.VCPUSeconds, 1, 1), foreign)
	for name, tt := range map[string]struct {
		q    billing.Query
		want []string
	}{
		"all":       {billing.Query{}, []string{"i1", "i2", "i3"}},
		"project":   {billing.Query{Project: "q"}, []string{"i3"}},
		"session":   {billing.Query{Session: "s-i2"}, []string{"i2"}},
		"nobody":    {billing.Query{Project: "q", Session: "s-i2"}, nil},
		"from":      {billing.Query{From: day.Add(time.Hour)}, []string{"i2", "i3"}},
		"to":        {billing.Query{To: day.Add(time.Hour)}, []string{"i1"}},
		"half open": {billing.Query{From: day, To: day.Add(2 * time.Hour)}, []string{"i1", "i2"}},
		"page":      {billing.Query{Limit: 1}, []string{"i1"}},
	} {
		for _, read := range []func(context.Context, billing.Query) ([]billing.Row, error){l.List, l.Pull} {
			rows, err := read(t.Context(), tt.q)
			var got []string
			for _, r := range rows {
				got = append(got, r.Incarnation)
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%s: got %v, want %v, %v", name, got, tt.want, err)
			}
		}
	}
}

func testAck(t *testing.T, l billing.Ledger) {
	t.Helper()
	commit(t, l, 3, Row("i1", billing.VCPUSeconds, 0, 1), Row("i2", billing.VCPUSeconds, 0, 1), Row("i3", billing.VCPUSeconds, 0, 1))
	rows := list(t, l)
	ids := []int64{rows[0].ID, rows[2].ID, 1 << 50, -1, 0}
	for i, tt := range []struct {
		project string
		want    int
	}{{"q", 0}, {"p", 2}, {"p", 0}, {"", 0}} {
		if n, err := l.Ack(t.Context(), tt.project, ids); n != tt.want || err != nil {
			t.Errorf("ack %d: %d, want %d, %v", i, n, tt.want, err)
		}
	}
	if n, err := l.Ack(t.Context(), "", nil); n != 0 || err != nil {
		t.Errorf("ack of nothing: %d, %v", n, err)
	}
	left, err := l.Pull(t.Context(), billing.Query{})
	if err != nil || len(left) != 1 || left[0].ID != rows[1].ID {
		t.Errorf("left are %+v, %v", left, err)
	}
	if all := list(t, l); len(all) != 3 || all[0].Acked.IsZero() || !all[1].Acked.IsZero() {
		t.Errorf("got %+v", all)
	}
}

func testMarks(t *testing.T, l billing.Ledger) {
	t.Helper()
	for i, tt := range []struct {
		version int64
		body    string
		want    string
	}{{5, "five", "five"}, {4, "four", "five"}, {5, "again", "five"}, {6, "six", "six"}} {
		_, err := l.Commit(t.Context(), billing.Batch{Marks: []billing.Mark{{Host: "h", Incarnation: "i1", Version: tt.version, Body: []byte(tt.body)}}})
		marks, merr := l.Marks(t.Context(), "h")
		if err != nil || merr != nil || len(marks) != 1 || string(marks[0].Body) != tt.want {
			t.Errorf("step %d: got %v, %v, %v", i, marks, err, merr)
		}
	}
	for range 2 { // again does nothing
		if _, err := l.Commit(t.Context(), billing.Batch{Ended: []string{"i1"}}); err != nil {
			t.Fatal(err)
		}
		if marks, err := l.Marks(t.Context(), "h"); len(marks) != 0 || err != nil {
			t.Errorf("left are %v, %v", marks, err)
		}
	}
}

func testHosts(t *testing.T, l billing.Ledger) {
	t.Helper()
	want := billing.Mark{Host: "b", Incarnation: "i2", Version: 1, Body: []byte{0, 255, 1}}
	_, err := l.Commit(t.Context(), billing.Batch{Marks: []billing.Mark{{Host: "a", Incarnation: "i1", Version: 1, Body: []byte("x")}, want}})
	marks, merr := l.Marks(t.Context(), "b")
	if err != nil || merr != nil {
		t.Fatal(err, merr)
	}
	if d := cmp.Diff([]billing.Mark{want}, marks); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// testRace has writers repeat each other's rows while a reader pages: each row is
// there once, and the reader saw all of them.
func testRace(t *testing.T, l billing.Ledger) {
	t.Helper()
	const writers, batches = 4, 12
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		added int
	)
	for w := range writers {
		wait.Go(func() {
			for i := range batches {
				rows := []billing.Row{
					Row(fmt.Sprintf("w%d", w), billing.VCPUSeconds, i, 1), Row("shared", billing.VCPUSeconds, i, 1),
				}
				n, err := l.Commit(t.Context(), billing.Batch{Rows: rows})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				added += n
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	seen, since := 0, int64(0)
	for last := false; ; {
		rows, err := l.Pull(t.Context(), billing.Query{Since: since})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			seen, since = seen+1, r.ID
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	if want := (writers + 1) * batches; added != want || seen != want {
		t.Errorf("%d rows were added and %d seen, want %d", added, seen, want)
	}
}

func testContext(t *testing.T, l billing.Ledger) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Commit(ctx, billing.Batch{Rows: []billing.Row{Row("i1", billing.VCPUSeconds, 0, 1)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("commit says %v", err)
	}
	if got := list(t, l); len(got) != 0 {
		t.Errorf("written was %v", got)
	}
	for _, read := range []func(context.Context, billing.Query) ([]billing.Row, error){l.List, l.Pull} {
		if _, err := read(ctx, billing.Query{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a read says %v", err)
		}
	}
}
