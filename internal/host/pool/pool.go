// Package pool keeps desktops in stock, so that who asks for one does not wait
// for its making. There are two tiers: hypervisor processes that wait for their
// state, and clones that were proven, exercised and stopped.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/vm"
)

const (
	// memory is how long a request is remembered: the stock of a kind is as large
	// as its requests of that time.
	memory = 10 * time.Minute
	// retry is how long the stock is left alone after something of it failed.
	retry = 30 * time.Second
	// look is how often the stock is looked at when nobody asks.
	look = time.Minute
)

// Limits bound the stock of all kinds together. Zero: there is no pool.
type Limits struct {
	Warm     int // clones; each takes about 100 MiB
	Prepared int // processes; each takes about 30 MiB
}

// Kind is what spares of one kind have in common.
type Kind struct {
	Snapshot     vm.SnapshotID
	Network      vm.NetworkMode
	WorkspaceMiB int64
}

// Config of a pool. All members but Limits are required.
type Config struct {
	Limits Limits
	Env    *desk.Env
	// Room says whether memory suffices for one more spare.
	Room func() bool
	// Find finds the boot snapshot of a kind, unless it is gone.
	Find   func(ctx context.Context, id vm.SnapshotID) (store.Sealed, error)
	Logger *slog.Logger
	Now    func() time.Time
}

// Pool is the stock. Safe for concurrent use.
type Pool struct {
	cfg  Config
	kick chan struct{} // wakes Run; holds one token

	mu    sync.Mutex
	stock map[Kind][]*desk.Spare // guarded by mu; warm ones first
	asked map[Kind][]time.Time   // guarded by mu; newest last
	dead  []*desk.Spare          // guarded by mu; Run discards them
}

// New makes an empty pool.
func New(cfg Config) *Pool {
	return &Pool{cfg: cfg, kick: make(chan struct{}, 1), stock: make(map[Kind][]*desk.Spare), asked: make(map[Kind][]time.Time)}
}

// Take takes a spare out of the stock, nil when there is none, and remembers
// that one was asked for. It does not wait.
func (p *Pool) Take(k Kind) *desk.Spare {
	if p.cfg.Limits == (Limits{}) {
		return nil
	}
	defer p.wake()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[k] = append(p.asked[k], p.cfg.Now())
	for len(p.stock[k]) > 0 {
		s := p.stock[k][0]
		p.stock[k] = p.stock[k][1:]
		if s.Alive() {
			return s
		}
		p.dead = append(p.dead, s)
	}
	return nil
}

func (p *Pool) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// Size counts the stock.
func (p *Pool) Size() (warm, prepared int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count()
}

func (p *Pool) count() (warm, prepared int) {
	for _, list := range p.stock {
		for _, s := range list {
			if s.IsWarm() {
				warm++
			} else {
				prepared++
			}
		}
	}
	return warm, prepared
}

// Run keeps the stock until ctx ends; then it discards it. One spare is made at a
// time: who waits for a desktop goes first.
func (p *Pool) Run(ctx context.Context) {
	if p.cfg.Limits == (Limits{}) {
		return
	}
	timer := time.NewTimer(look)
	defer timer.Stop()
	for ctx.Err() == nil {
		again, err := p.step(ctx)
		wait, kick := look, p.kick
		switch {
		case err != nil && ctx.Err() == nil:
			p.cfg.Logger.Warn("spare desktop not made", "err", err)
			wait, kick = retry, nil
		case again:
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-kick:
		}
	}
	p.empty(ctx)
}

// step does the most urgent thing; again says that there may be more to do.
func (p *Pool) step(ctx context.Context) (again bool, err error) {
	p.shed(ctx)
	k, cold, ok := p.wanted()
	if !ok || !p.cfg.Room() {
		return false, nil
	}
	if cold != nil {
		if err := cold.Warm(ctx); err != nil {
			return false, err
		}
		p.put(k, cold)
		return true, nil
	}
	sealed, err := p.cfg.Find(ctx, k.Snapshot)
	if err != nil {
		return false, err
	}
	sealed.Desktop.WorkspaceMiB = k.WorkspaceMiB
	s, err := desk.NewSpare(ctx, p.cfg.Env, sealed, k.Network)
	if err != nil {
		return false, err
	}
	p.put(k, s)
	return true, nil
}

// wanted is the kind that lacks a spare most, and a prepared one of it to be made
// warm; nil: another process is to be prepared.
func (p *Pool) wanted() (k Kind, cold *desk.Spare, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	warm, prepared := p.count()
	most := 0
	for kind, times := range p.asked {
		have := len(p.stock[kind])
		hot := 0
		for _, s := range p.stock[kind] {
			if s.IsWarm() {
				hot++
			}
		}
		want := len(times)
		switch {
		case warm < p.cfg.Limits.Warm && hot < want && want-hot > most:
			most, k, ok = want-hot, kind, true
			cold = nil
			if have > hot {
				cold = p.stock[kind][hot]
			}
		case prepared < p.cfg.Limits.Prepared && have < want && want-have > most:
			most, k, cold, ok = want-have, kind, nil, true
		}
	}
	if cold != nil { // it is not in stock while it is made warm
		list := p.stock[k]
		for i, s := range list {
			if s == cold {
				p.stock[k] = append(append([]*desk.Spare{}, list[:i]...), list[i+1:]...)
				break
			}
		}
	}
	return k, cold, ok
}

// put adds a spare to the stock, warm ones before the others.
func (p *Pool) put(k Kind, s *desk.Spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.IsWarm() {
		p.stock[k] = append([]*desk.Spare{s}, p.stock[k]...)
		return
	}
	p.stock[k] = append(p.stock[k], s)
}

// shed forgets old requests, and discards what they do not justify any more, what
// has died, and what stands on a snapshot that is gone.
func (p *Pool) shed(ctx context.Context) {
	p.mu.Lock()
	kinds := slices.Collect(maps.Keys(p.asked))
	p.mu.Unlock()
	gone := map[Kind]bool{}
	for _, k := range kinds {
		if _, err := p.cfg.Find(ctx, k.Snapshot); errors.Is(err, store.ErrNotFound) {
			gone[k] = true
		}
	}
	old := p.cfg.Now().Add(-memory)
	p.mu.Lock()
	out := p.dead
	p.dead = nil
	for k, times := range p.asked {
		for len(times) > 0 && (gone[k] || times[0].Before(old)) {
			times = times[1:]
		}
		p.asked[k] = times
		var keep []*desk.Spare
		for _, s := range p.stock[k] {
			if s.Alive() && len(keep) < len(times) {
				keep = append(keep, s)
			} else {
				out = append(out, s)
			}
		}
		p.stock[k] = keep
		if len(times) == 0 {
			delete(p.asked, k)
			delete(p.stock, k)
		}
	}
	p.mu.Unlock()
	for _, s := range out {
		p.discard(ctx, s)
	}
}

// empty discards the whole stock.
func (p *Pool) empty(ctx context.Context) {
	p.mu.Lock()
	stock := p.stock
	p.stock = make(map[Kind][]*desk.Spare)
	stock[Kind{}] = append(stock[Kind{}], p.dead...)
	p.mu.Unlock()
	for _, list := range stock {
		for _, s := range list {
			p.discard(ctx, s)
		}
	}
}

func (p *Pool) discard(ctx context.Context, s *desk.Spare) {
	if err := s.Discard(ctx); err != nil {
		p.cfg.Logger.Warn("spare desktop not discarded", "err", err)
	}
}

// Return gives back, to be discarded, what was taken and is not used.
func (p *Pool) Return(ctx context.Context, s *desk.Spare) { p.discard(ctx, s) }
