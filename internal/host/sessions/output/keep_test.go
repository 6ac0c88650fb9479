package output_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// aged is a store in which everything was written long ago: nothing but claims keeps
// anything from a sweep.
type aged struct{ workspace.Objects }

const age = 48 * time.Hour

// List implements workspace.Objects.
func (a aged) List(ctx context.Context, prefix, after string, limit int) ([]workspace.Info, error) {
	list, err := a.Objects.List(ctx, prefix, after, limit)
	for i := range list {
		list[i].Modified = list[i].Modified.Add(-age)
	}
	return list, err
}

// publisher is sessions with a store alone.
type publisher struct {
	store output.Store

	mu  sync.Mutex
	now map[string]session.Publication // guarded by mu; by session
}

func (p *publisher) publications(context.Context) ([]session.Publication, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []session.Publication
	for _, one := range p.now {
		all = append(all, one)
	}
	return all, nil
}

// publish is what a fence and its followers do.
func (p *publisher) publish(ctx context.Context, name string, c session.Candidate) error {
	p.mu.Lock()
	p.now[name] = session.Publication{Draft: session.Draft{Output: &c}}
	p.mu.Unlock()
	return p.store.Mark(ctx, session.Scope{Workspace: "p", Environment: "e", Session: name, Work: "w"}, c)
}

func (p *publisher) prune(ctx context.Context, policy retain.Policy) (output.Pruned, error) {
	return p.store.Prune(ctx, policy, p.publications, false)
}

// run is one run of the stand's port that leaves text, up to its publication.
func (s *stand) run(t *testing.T, p *publisher, name, text string) session.Candidate {
	t.Helper()
	b, err := s.port.Prepare(t.Context(), session.OutputPreparation{Tenure: s.tenure, Strategy: session.OutputsCollect, Key: name + text})
	if err == nil {
		err = s.port.Attach(t.Context(), s.tenure, b, s.lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.place = b
	s.write(t, "a", text)
	s.write(t, "same", "in all of them")
	c, err := s.finalize(t.Context(), s.collect(t))
	if err == nil {
		err = p.publish(t.Context(), name, c)
	}
	if err == nil {
		err = s.port.Release(t.Context(), s.tenure, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reads reads all that a candidate names.
func reads(ctx context.Context, r *output.Reader, c session.Candidate) (string, error) {
	set, err := r.Open(ctx, c)
	if err != nil {
		return "", err
	}
	var all []string
	for _, e := range set.Entries {
		f, err := set.File(ctx, e.ContentHash)
		if err != nil {
			return "", err
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		all = append(all, string(b))
	}
	return strings.Join(all, ","), nil
}

func newPublisher(t *testing.T) (*stand, *publisher) {
	t.Helper()
	s := newStand(t, nil, func(o workspace.Objects) workspace.Objects { return aged{o} })
	return s, &publisher{store: s.store, now: map[string]session.Publication{}}
}

// TestPruneKeepsByPolicy: of each session what its policy says and what is published,
// with the words and counts of workspaces.
func TestPruneKeepsByPolicy(t *testing.T) {
	t.Parallel()
	s, p := newPublisher(t)
	var all []session.Candidate
	for i := range 4 {
		all = append(all, s.run(t, p, "one", fmt.Sprint(i)))
	}
	other := s.run(t, p, "two", "other")
	reader := output.NewReader(s.store, "r")
	if r, err := p.prune(t.Context(), retain.Policy{}); err != nil || r.Kept != 5 || len(r.Dropped) != 0 {
		t.Fatalf("without a policy: %+v, %v", r, err)
	}
	dry, err := s.store.Prune(t.Context(), retain.Policy{Last: 2}, p.publications, true)
	if err != nil || len(dry.Dropped) != 2 {
		t.Fatalf("only looked: %+v, %v", dry, err)
	}
	r, err := p.prune(t.Context(), retain.Policy{Last: 2})
	if err != nil || r.Kept != 3 || !slices.Equal(r.Dropped, dry.Dropped) || r.Objects != dry.Objects || r.Bytes != dry.Bytes || r.Objects != 8 {
		t.Fatalf("the last two: %+v, looked %+v, %v", r, dry, err)
	}
	for i, c := range append(all, other) {
		want := []string{"", "", "2,in all of them", "3,in all of them", "other,in all of them"}[i]
		if got, err := reads(t.Context(), reader, c); got != want || want == "" && !errors.Is(err, claim.ErrDropped) {
			t.Errorf("%d: %q, %v", i, got, err)
		}
	}
	p.mu.Lock()
	p.now = map[string]session.Publication{}
	p.mu.Unlock()
	if r, err := p.prune(t.Context(), retain.Policy{Last: 1}); !errors.Is(err, output.ErrUnknown) {
		t.Errorf("another database: %+v, %v", r, err)
	}
}

// TestRunThatPublishesNothing leaves nothing, and what it stored and thought better of
// goes at its end.
func TestRunThatPublishesNothing(t *testing.T) {
	t.Parallel()
	s, p := newPublisher(t)
	kept := s.run(t, p, "one", "kept")
	b, err := s.port.Prepare(t.Context(), session.OutputPreparation{Tenure: s.tenure, Strategy: session.OutputsCollect, Key: "n"})
	if err == nil {
		err = s.port.Attach(t.Context(), s.tenure, b, s.lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.place = b
	s.write(t, "a", "stored")
	s.write(t, "b", "changes")
	entries := s.collect(t)
	s.write(t, "b", "changed")
	if _, err := s.finalize(t.Context(), entries); err == nil {
		t.Fatal("a file has changed")
	}
	if err := s.port.Abort(t.Context(), s.tenure, b, session.ReasonFailed); err != nil {
		t.Error(err)
	}
	list, err := s.store.Objects.List(t.Context(), output.Root, "", 100)
	if err != nil || len(list) != 4 { // a manifest, a mark and two files
		t.Errorf("there is %v, %v", list, err)
	}
	if got, err := reads(t.Context(), output.NewReader(s.store, "r"), kept); err != nil || got != "kept,in all of them" {
		t.Errorf("what was published: %q, %v", got, err)
	}
}

// TestRunOutlivesItsHold: what a sweep has taken of a run that goes on is stored again.
func TestRunOutlivesItsHold(t *testing.T) {
	t.Parallel()
	s, p := newPublisher(t)
	s.run(t, p, "one", "first")
	b, err := s.port.Prepare(t.Context(), session.OutputPreparation{Tenure: s.tenure, Strategy: session.OutputsCollect, Key: "n"})
	if err == nil {
		err = s.port.Attach(t.Context(), s.tenure, b, s.lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.place = b
	s.write(t, "a", "second")
	early, err := s.finalize(t.Context(), s.collect(t))
	if err != nil {
		t.Fatal(err)
	}
	holds, err := s.store.Objects.List(t.Context(), output.Root+"holds/", "", 100)
	if err != nil || len(holds) != 1 {
		t.Fatalf("holds: %v, %v", holds, err)
	}
	if r, err := p.prune(t.Context(), retain.Policy{}); err != nil || len(r.Dropped) != 0 {
		t.Errorf("while it is held: %+v, %v", r, err)
	}
	if err := s.store.Objects.Delete(t.Context(), holds[0].Key); err != nil { // as its end does
		t.Fatal(err)
	}
	if r, err := p.prune(t.Context(), retain.Policy{}); err != nil || len(r.Dropped) != 1 {
		t.Errorf("when it is not: %+v, %v", r, err)
	}
	late, err := s.finalize(t.Context(), s.collect(t))
	if err != nil || late.Metadata["set"] == early.Metadata["set"] {
		t.Fatalf("%+v after %+v, %v", late, early, err)
	}
	if err := p.publish(t.Context(), "one", late); err != nil {
		t.Fatal(err)
	}
	if got, err := reads(t.Context(), output.NewReader(s.store, "r"), late); err != nil || got != "second" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestSetIsHeldWithoutABreak: a run whose hold has ended begins another set, for the
// first may be condemned in passing.
func TestSetIsHeldWithoutABreak(t *testing.T) {
	t.Parallel()
	for pause, same := range map[time.Duration]bool{claim.Life - time.Minute: true, claim.Life + time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			s := output.Store{Space: claim.Space{Objects: &blobtest.Memory{}, Root: output.Root}}
			before, after, err := output.Sets(t.Context(), s, func() { <-time.After(pause) })
			if err != nil || (before == after) != same {
				t.Errorf("after %s: %q, then %q, %v", pause, before, after, err)
			}
		})
	}
}

// TestPruneAgainstRunsAndDownloads: sweeps that find everything old, between any two
// calls of a publication and a download. What was published stays whole, and who has
// begun to read reads to the end.
func TestPruneAgainstRunsAndDownloads(t *testing.T) {
	t.Parallel()
	s, p := newPublisher(t)
	old := s.run(t, p, "one", "old")
	s.run(t, p, "one", "newer")
	policy, sweeps := retain.Policy{Last: 1}, 0
	calm := s.store
	sweep := func() {
		sweeps++
		if _, err := (&publisher{store: calm, now: p.now}).prune(context.Background(), policy); err != nil {
			t.Errorf("sweep: %v", err)
		}
	}
	store := s.store
	store.Objects = &before{Objects: s.store.Objects, do: sweep}
	if got, err := reads(t.Context(), output.NewReader(store, "r"), old); !errors.Is(err, claim.ErrDropped) {
		t.Errorf("swept before it was held: %q, %v", got, err)
	}
	s.port = output.New(output.Config{Guest: s.guest, Store: store, Mount: s.mount})
	p.store = store
	for i := range 3 {
		c := s.run(t, p, "one", fmt.Sprint(i))
		if got, err := reads(t.Context(), output.NewReader(store, fmt.Sprint("r", i)), c); err != nil || got != fmt.Sprint(i)+",in all of them" {
			t.Errorf("run %d: %q, %v", i, got, err)
		}
	}
	// A reader that holds it reads on, although it is published no more.
	c := s.run(t, p, "one", "last but one")
	reader := output.NewReader(store, "slow")
	set, err := reader.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.run(t, p, "one", "last")
	for _, e := range set.Entries {
		f, err := set.File(t.Context(), e.ContentHash)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, f); err != nil {
			t.Error(err)
		}
		_ = f.Close()
	}
	if sweeps < 50 {
		t.Errorf("%d sweeps only", sweeps)
	}
}

// before does something before each call.
type before struct {
	workspace.Objects

	do func()
}

// Put implements workspace.Objects.
func (b *before) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	b.do()
	defer b.do()
	return b.Objects.Put(ctx, key, body, size)
}

// Get implements workspace.Objects.
func (b *before) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.do()
	return b.Objects.Get(ctx, key, off, n)
}

// List implements workspace.Objects.
func (b *before) List(ctx context.Context, prefix, after string, limit int) ([]workspace.Info, error) {
	b.do()
	return b.Objects.List(ctx, prefix, after, limit)
}

// Delete implements workspace.Objects.
func (b *before) Delete(ctx context.Context, key string) error {
	b.do()
	return b.Objects.Delete(ctx, key)
}

// TestPruneAtOnce: runs, readers and sweeps on one store at the same time.
func TestPruneAtOnce(t *testing.T) {
	t.Parallel()
	var m blobtest.Memory
	p := &publisher{now: map[string]session.Publication{}, store: output.Store{Space: claim.Space{Objects: aged{&m}, Root: output.Root}, Dir: t.TempDir()}}
	var working sync.WaitGroup
	done := make(chan struct{})
	for i := range 3 {
		name := fmt.Sprint("s", i)
		working.Go(func() {
			for n := range 40 {
				c, err := output.Leave(t.Context(), p.store, sessiontest.Tenure(int64(n+1)), map[string]string{"a": fmt.Sprint(name, n), "b": "same"}, func(c session.Candidate) error {
					return p.publish(t.Context(), name, c)
				})
				if err != nil {
					t.Errorf("%s run %d: %v", name, n, err)
					return
				}
				got, err := reads(t.Context(), output.NewReader(p.store, fmt.Sprint("r", i, "x", n)), c)
				if err != nil || got != fmt.Sprint(name, n)+",same" {
					t.Errorf("%s run %d reads %q, %v", name, n, got, err)
				}
			}
		})
	}
	var sweeping sync.WaitGroup
	for range 2 {
		sweeping.Go(func() {
			for {
				if _, err := p.prune(t.Context(), retain.Policy{Last: 1}); err != nil && !errors.Is(err, output.ErrUnknown) {
					t.Errorf("sweep: %v", err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	working.Wait()
	close(done)
	sweeping.Wait()
	for name, one := range p.now {
		if got, err := reads(t.Context(), output.NewReader(p.store, "last"), *one.Output); err != nil || got != name+"39,same" {
			t.Errorf("%s in the end: %q, %v", name, got, err)
		}
	}
}
