package sessiontest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// model is what fences mean, in the plainest words: who holds the session, until
// when, and what is published.
type model struct {
	now        time.Duration
	generation int64
	holder     int // index of the owner, -1 for nobody
	until      time.Duration
	revision   int64
	draft      string
	published  int64 // generation
}

func (m *model) live() bool { return m.holder >= 0 && m.now < m.until }

// testModel lets four owners do hundreds of seeded steps against the model.
func testModel(t *testing.T, f Fixture) {
	t.Helper()
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, f, seed) })
	}
}

type owner struct {
	stores session.Stores
	by     session.Claimant
	fence  session.Fence
}

func runModel(t *testing.T, f Fixture, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	scope := Scope("w")
	scope.Session = fmt.Sprint("model-", seed)
	owners := make([]*owner, 4)
	for i := range owners {
		owners[i] = &owner{stores: f.Open(t), by: session.NewClaimant(fmt.Sprint("o", i))}
	}
	m := &model{holder: -1}
	for step := range 250 {
		who := random.IntN(len(owners))
		o := owners[who]
		var err error
		var what string
		switch random.IntN(8) {
		case 0, 1:
			what, err = "acquire", m.acquire(t, who, o, scope)
		case 2:
			// A minute a step: the real time that a step takes stays far below.
			d := time.Duration(1+random.IntN(3)) * 40 * time.Minute
			f.Advance(t, d)
			m.now += d
			what = "clock"
		case 3:
			what, err = "renew", m.renew(t, who, o)
		case 4:
			what, err = "release", m.release(t, who, o)
		case 5:
			what, err = "current", m.check(who, o, o.stores.Fences.Current(t.Context(), o.fence))
		default:
			what, err = "publish", m.publish(t, who, o, fmt.Sprint("d", random.IntN(3)))
		}
		if err != nil {
			t.Fatalf("step %d, owner %d, %s: %v (model %+v)", step, who, what, err, *m)
		}
	}
	if m.revision == 0 || m.generation < 5 {
		t.Fatalf("the steps prove little: %+v", *m)
	}
}

const modelTTL = time.Hour

func (m *model) acquire(t *testing.T, who int, o *owner, scope session.Scope) error {
	t.Helper()
	c, err := o.stores.Fences.Acquire(t.Context(), scope, o.by, modelTTL)
	if m.live() && m.holder != who {
		if _, ok := errors.AsType[*session.ConflictError](err); !ok {
			return fmt.Errorf("want a conflict, got %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if !m.live() {
		m.generation++
		m.holder, m.until = who, m.now+modelTTL
	}
	o.fence = c.Fence
	if c.Fence.Generation != m.generation {
		return fmt.Errorf("generation %d", c.Fence.Generation)
	}
	if m.revision == 0 {
		if c.Last != nil {
			return fmt.Errorf("publication %+v", c.Last)
		}
		return nil
	}
	if c.Last == nil || c.Last.Revision != m.revision || c.Last.Workspace.ID != m.draft || c.Last.Generation != m.published {
		return fmt.Errorf("publication %+v", c.Last)
	}
	return nil
}

// holds says whether the owner's fence is the live one.
func (m *model) holds(who int, o *owner) bool {
	return m.live() && m.holder == who && o.fence.Generation == m.generation
}

func (m *model) check(who int, o *owner, err error) error {
	if m.holds(who, o) {
		return err
	}
	if !errors.Is(err, session.ErrLost) {
		return fmt.Errorf("want a lost fence, got %w", err)
	}
	return nil
}

func (m *model) renew(t *testing.T, who int, o *owner) error {
	t.Helper()
	_, err := o.stores.Fences.Renew(t.Context(), o.fence, modelTTL)
	if m.holds(who, o) {
		m.until = m.now + modelTTL
	}
	return m.check(who, o, err)
}

func (m *model) release(t *testing.T, who int, o *owner) error {
	t.Helper()
	if m.holds(who, o) {
		m.holder = -1
	}
	return o.stores.Fences.Release(t.Context(), o.fence)
}

func (m *model) publish(t *testing.T, who int, o *owner, id string) error {
	t.Helper()
	p, err := o.stores.Fences.Publish(t.Context(), o.fence, Draft(id))
	if m.holds(who, o) {
		if m.draft != id || m.published != m.generation {
			m.revision++
		}
		m.draft, m.published = id, m.generation
		if p.Revision != m.revision {
			return fmt.Errorf("revision %d", p.Revision)
		}
	}
	return m.check(who, o, err)
}
