package claim_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
)

// model is makers, readers and sweeps on one store, of whose calls a seed says which
// comes next: one at a time, each from beginning to end.
type model struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	store blobtest.Memory

	mu      sync.Mutex
	waiting map[string]chan struct{} // guarded by mu; by actor
	current map[string]string        // guarded by mu; what each maker has recorded last
	made    int                      // guarded by mu; makers that have ended

	had, refused, dropped int // of the one that has its turn
}

// turn waits for the actor's next one.
func (m *model) turn(actor string) {
	c := make(chan struct{})
	m.mu.Lock()
	m.waiting[actor] = c
	m.mu.Unlock()
	<-c
}

// below is the store as an actor has it, in which everything is old. Its calls from
// killed on fail, which is never when that is 0.
func (m *model) below(actor string, killed int) claim.Space {
	return space(blobtest.NewFaulty(&m.store, func(c blobtest.Call) blobtest.Fault {
		return blobtest.Fault{Skew: -48 * time.Hour, Fatal: killed > 0 && c.N >= killed, Before: func() { m.turn(actor) }}
	}))
}

func (m *model) run(makers, readers, sweeps int) {
	var all sync.WaitGroup
	for i := range makers {
		all.Go(func() { m.maker(fmt.Sprint("maker", i)) })
	}
	ended := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.made == makers
	}
	for i := range readers {
		all.Go(func() {
			for !ended() {
				m.reader(fmt.Sprint("reader", i), fmt.Sprint("maker", i%makers))
			}
		})
	}
	for i := range sweeps {
		all.Go(func() {
			for !ended() {
				m.sweep(fmt.Sprint("sweep", i))
			}
		})
	}
	for {
		synctest.Wait()
		m.mu.Lock()
		actors := slices.Sorted(maps.Keys(m.waiting))
		if len(actors) == 0 {
			m.mu.Unlock()
			break
		}
		next := actors[m.rand.IntN(len(actors))]
		c := m.waiting[next]
		delete(m.waiting, next)
		m.mu.Unlock()
		close(c)
	}
	all.Wait()
}

// maker makes things, and records each in the place of the one before.
func (m *model) maker(actor string) {
	s := m.below(actor, 0)
	for i := range 3 {
		name := fmt.Sprint(actor, "-", i)
		err := s.Hold(m.t.Context(), name, "run")
		if err == nil {
			err = s.Dropped(m.t.Context(), name)
		}
		for _, key := range []string{"parts/" + name + "/x", "whole/" + name + "/1"} {
			if err == nil {
				err = s.Objects.Put(m.t.Context(), root+key, strings.NewReader("four"), 4)
			}
		}
		m.turn(actor)
		m.mu.Lock()
		m.current[actor] = name
		m.mu.Unlock()
		if err == nil {
			err = s.Release(m.t.Context(), name, "run")
		}
		if err != nil {
			m.t.Errorf("seed %d: %s makes %s: %v", m.seed, actor, name, err)
		}
	}
	m.mu.Lock()
	m.made++
	m.mu.Unlock()
}

func (m *model) now(maker string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current[maker]
}

// reader reads what a maker has recorded. It is refused when that is recorded no more,
// and never before.
func (m *model) reader(actor, maker string) {
	m.turn(actor)
	name := m.now(maker)
	if name == "" {
		return
	}
	s := m.below(actor, 0)
	if err := s.Hold(m.t.Context(), name, actor); err != nil {
		m.t.Errorf("seed %d: %s: %v", m.seed, actor, err)
	}
	err := s.Dropped(m.t.Context(), name)
	switch {
	case err == nil:
		m.had++
		m.whole(s, name)
	case !errors.Is(err, claim.ErrDropped):
		m.t.Errorf("seed %d: %s: %v", m.seed, actor, err)
	case m.now(maker) == name:
		m.t.Errorf("seed %d: %s is refused %s, which is recorded", m.seed, actor, name)
	default:
		m.refused++
	}
	if err := s.Release(m.t.Context(), name, actor); err != nil {
		m.t.Errorf("seed %d: %s: %v", m.seed, actor, err)
	}
}

func (m *model) whole(s claim.Space, name string) {
	for _, key := range []string{"whole/" + name + "/1", "parts/" + name + "/x"} {
		if _, err := s.Objects.Stat(m.t.Context(), root+key); err != nil {
			m.t.Errorf("seed %d: %s is held, and %s gone: %v", m.seed, name, key, err)
		}
	}
}

// sweep is one, which may be killed.
func (m *model) sweep(actor string) {
	m.turn(actor)
	w := sweeper(nil)
	w.Space = m.below(actor, m.rand.IntN(40))
	w.Needed = func(context.Context, map[string]bool) (map[string]bool, error) {
		m.turn(actor)
		m.mu.Lock()
		defer m.mu.Unlock()
		needed := map[string]bool{}
		for _, name := range m.current {
			needed[name] = true
		}
		return needed, nil
	}
	r, err := w.Sweep(m.t.Context())
	if err != nil && !errors.Is(err, blobtest.ErrInjected) {
		m.t.Errorf("seed %d: %s: %v", m.seed, actor, err)
	}
	m.dropped += len(r.Dropped)
}

// TestInterleavings explores orders of the calls of makers, readers and sweeps that
// find everything old, and of which some are killed. What is recorded is to be had,
// whole, by everybody and at every moment.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	had, refused, dropped := 0, 0, 0
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			m := &model{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), waiting: map[string]chan struct{}{}, current: map[string]string{}}
			m.run(2, 2, 2)
			for _, name := range m.current {
				m.whole(space(&m.store), name)
			}
			had, refused, dropped = had+m.had, refused+m.refused, dropped+m.dropped
		})
	}
	t.Logf("%d reads, %d refused, %d things dropped", had, refused, dropped)
	if had == 0 || refused == 0 || dropped == 0 {
		t.Error("one of the outcomes has not been seen")
	}
}
