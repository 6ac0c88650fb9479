package sessions_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/dir"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// shared is what hosts have in common: a store in a directory, and a key.
type shared struct {
	t     *testing.T
	key   string
	below blob.Store
}

func newShared(t *testing.T) *shared {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	below, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = below.Close() })
	return &shared{t: t, key: key, below: below}
}

// blobs are the store as a host sees it.
func (s *shared) blobs(key string, below blob.Store) workspaces.Blobs {
	s.t.Helper()
	sealed, err := seal.New(below, strings.NewReader(key))
	if err != nil {
		s.t.Fatal(err)
	}
	return workspaces.Blobs{Objects: sealed, Key: sealed.Key()}
}

// world is a host with a store; beside, when there is one, shares its fences, and runs
// commands in the same place, so that they are the same.
func (s *shared) world(b workspaces.Blobs, beside *world) *world {
	s.t.Helper()
	w := &world{t: s.t, dir: s.t.TempDir(), said: map[string]string{}}
	w.change = []func(*sessions.Config){func(c *sessions.Config) {
		c.Node = map[bool]string{true: "one", false: "two"}[beside == nil]
	}}
	w.Fixture = hosttest.New(s.t, func(c *host.Config) {
		c.Blobs = b
		if beside != nil {
			c.Fences = beside.Config.Fences
		}
	})
	if beside != nil {
		w.dir, w.Sessions = beside.dir, beside.Sessions
	}
	w.begin()
	return w
}

// stored are the keys of runtime checkpoints.
func (s *shared) stored() []string {
	s.t.Helper()
	list, err := s.below.List(s.t.Context(), "runtime/", "", 1000)
	if err != nil {
		s.t.Fatal(err)
	}
	var keys []string
	for _, b := range list {
		keys = append(keys, b.Key)
	}
	return keys
}

// TestRunGoesOnElsewhere: the next run on another host begins in the desktop that the
// last has kept, and the store has one of each session, while the session names it.
func TestRunGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	one := s.world(s.blobs(s.key, s.below), nil)
	two := s.world(s.blobs(s.key, s.below), one)
	_, last, _ := one.origin(seals("portable"))
	if last.Kept == nil || !last.Kept.Portable || len(s.stored()) != 3 {
		t.Fatalf("kept %+v, stored %q", last.Kept, s.stored())
	}
	from, last, _ := two.origin(seals("optional"))
	if from == "" || len(last.Warnings) != 0 || last.Kept == nil || len(two.seals()) != 1 || len(s.stored()) != 3 {
		t.Errorf("made of %q: %+v, kept %q, stored %q", from, last, two.seals(), s.stored())
	}
	if from, last, _ := one.origin(seals("required")); from == "" || len(last.Warnings) != 0 || len(one.seals()) != 1 || len(s.stored()) != 3 {
		t.Errorf("back again made of %q: %+v, kept %q, stored %q", from, last, one.seals(), s.stored())
	}
	if from, last, _ := one.origin(); from != "" || last.Kept != nil || len(one.seals()) != 0 || len(s.stored()) != 0 {
		t.Errorf("a run without: made of %q, %+v, kept %q, stored %q", from, last, one.seals(), s.stored())
	}
}

// TestCheckpointThatCannotBeHad: the run begins from the workspace, and says why.
func TestCheckpointThatCannotBeHad(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	one := s.world(s.blobs(s.key, s.below), nil)
	two := s.world(s.blobs(s.key, s.below), one)
	spoil := func(prefix string) {
		t.Helper()
		for _, key := range s.stored() {
			if strings.HasPrefix(key, prefix) {
				if err := s.below.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, prefix := range []string{"runtime/parts/", "runtime/manifests/", "runtime/"} {
		one.origin(seals("portable"))
		spoil(prefix)
		from, last, steps := two.origin(seals("portable"))
		keys := slices.DeleteFunc(s.stored(), func(key string) bool { return last.Kept != nil && strings.Contains(key, last.Kept.ID) })
		// Of one that was not whole the mark stays for a day.
		tidy := len(keys) == 0 || len(keys) == 1 && prefix == "runtime/manifests/" && strings.HasPrefix(keys[0], "runtime/begun/")
		if from != "" || len(last.Warnings) != 1 || !strings.Contains(last.Warnings[0], "put the object back") || last.Kept == nil || !tidy {
			t.Errorf("without %s: made of %q, %+v, stored %q after %q", prefix, from, last, s.stored(), steps)
		}
	}
}

// TestNothingLeavesWithoutAKey: the host says so, and what must leave is refused
// before anything is begun.
func TestNothingLeavesWithoutAKey(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	w := s.world(workspaces.Blobs{Objects: s.below}, nil)
	_, last, _ := w.origin(seals("required"))
	if last.Kept == nil || last.Kept.Portable || len(s.stored()) != 0 || len(w.seals()) != 1 {
		t.Errorf("kept %+v, stored %q", last.Kept, s.stored())
	}
	last = w.run(api.RunFailed, "true", seals("portable"))
	if last.Error.Code != api.CodeUnsupported || !strings.Contains(last.Error.Detail, "stays on the host") || last.Generation != 0 {
		t.Errorf("%+v, %v", last, last.Error)
	}
	two := s.world(workspaces.Blobs{Objects: s.below}, w)
	if from, last, _ := two.origin(seals("required")); from != "" || len(last.Warnings) != 1 || !strings.Contains(last.Warnings[0], "--blob-key") {
		t.Errorf("elsewhere made of %q, %+v", from, last)
	}
	_, err := sessions.New(sessions.Config{
		Host: w.Host, Stores: w.Sessions.Stores(), Publications: w.Sessions.Publications, DataDir: t.TempDir(), Exports: true,
	})
	if err == nil || !strings.Contains(err.Error(), "does not encrypt") {
		t.Errorf("exports to a store in the clear: %v", err)
	}
}

// killer lets one call that is about runtime checkpoints hang for ever, as if the host
// had died there.
type killer struct {
	mu   sync.Mutex
	left int           // guarded by mu; calls before that one; negative: none
	hit  chan struct{} // guarded by mu; closed when it came
	end  chan struct{}
}

func (k *killer) plan(c blobtest.Call) blobtest.Fault {
	if !strings.HasPrefix(c.Key, "runtime/") {
		return blobtest.Fault{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left--
	if k.left != -1 {
		return blobtest.Fault{}
	}
	hit := k.hit
	return blobtest.Fault{Fatal: true, Before: func() {
		close(hit)
		<-k.end
	}}
}

func (k *killer) arm(calls int) (hit <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.hit = calls, make(chan struct{})
	return k.hit
}

// TestHostDiesAtEachStep: of bringing a checkpoint, of storing the next, of removing
// the old one. The next run goes on from what was published, and in the end the store
// has that alone.
func TestHostDiesAtEachStep(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	one := s.world(s.blobs(s.key, s.below), nil)
	k := &killer{left: -2, end: make(chan struct{})}
	two := s.world(s.blobs(s.key, blobtest.NewFaulty(s.below, k.plan)), one)
	defer close(k.end) // before the hosts wait for their calls
	one.origin(seals("portable"))
	for at := 0; ; at++ {
		hit := k.arm(at)
		two.attempt(hit)
		select {
		case <-hit:
		default:
			if at < 10 {
				t.Errorf("a run makes %d calls only", at)
			}
			k.arm(-2)
			s.tidied(two)
			return
		}
		two.Crash()
		two.begin()
		if from, last, _ := one.origin(seals("portable")); from == "" || len(last.Warnings) != 0 {
			t.Errorf("after the death at call %d: made of %q, %v", at, from, last.Warnings)
		}
	}
}

// attempt runs the command of origin until it ends, or its host dies.
func (w *world) attempt(dies <-chan struct{}) {
	w.sign("go")
	r, err := w.Desk.Start(w.t.Context(), hosttest.Project, w.request(seals("portable")), "")
	if err != nil {
		w.t.Error(err)
		return
	}
	for {
		select {
		case <-dies:
		case <-time.After(5 * time.Millisecond):
			if v, err := w.Desk.Get(hosttest.Project, r.ID); err == nil && v.State == api.RunRunning {
				continue
			}
		}
		break
	}
	for _, name := range []string{"go", "runs"} {
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Error(err)
		}
	}
}

// tidied waits until a day later nothing is stored but what sessions name.
func (s *shared) tidied(w *world) {
	s.t.Helper()
	w.stop()
	w.Stop()
	w.Start()
	_, stop := w.Work(w.dir, append(slices.Clone(w.change), func(c *sessions.Config) {
		c.Tidy, c.Now = 10*time.Millisecond, func() time.Time { return time.Now().Add(25 * time.Hour) }
	})...)
	defer stop()
	all, err := w.Sessions.Publications(context.Background())
	if err != nil || len(all) != 1 || all[0].RuntimeCheckpoint == nil {
		s.t.Fatalf("published: %+v, %v", all, err)
	}
	id, _, _ := strings.Cut(all[0].RuntimeCheckpoint.CheckpointID, "/")
	w.until("the store is tidy", func() error {
		for _, key := range s.stored() {
			if !strings.Contains(key, id) {
				return errors.New(key + " is left")
			}
		}
		return nil
	})
	if len(s.stored()) != 3 || len(w.seals()) != 1 {
		s.t.Errorf("stored %q, kept %q", s.stored(), w.seals())
	}
}
