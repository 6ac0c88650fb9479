// Package policy ends desktops whose time is over, and lets idle ones rest.
package policy

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Why a policy acts.
const (
	ReasonTTL    = "ttl"
	ReasonIdle   = "idle"
	ReasonMemory = "memory" // idle, and the host's memory is about to run out
)

const (
	// Every is how often desktops are looked at.
	Every = 5 * time.Second
	// maxLead is how long before it acts a policy tells; shorter where a tenth of
	// its time is less.
	maxLead = time.Minute
	// shortIdle is how long a desktop whose policy suspends it has been idle when
	// it is suspended for want of memory.
	shortIdle      = 30 * time.Second
	defaultIdleCPU = 10 // percent of one core
)

// Subject is one desktop at one instant.
type Subject struct {
	ID      string
	State   api.DesktopState
	Policy  api.Policy
	Expires time.Time // zero: never
	// Last is when somebody used it last, Busy that somebody does now.
	Last time.Time
	Busy bool
	// CPU is the time that its vCPUs have taken so far.
	CPU time.Duration
}

// Notice says what is about to happen.
type Notice struct {
	Action api.IdleAction
	Reason string // ReasonTTL or ReasonIdle
	At     time.Time
}

// Host is whose desktops are kept.
type Host interface {
	Subjects() []Subject
	// Short says that the host's memory is about to run out.
	Short() bool
	// Expiring tells of what is about to happen to a desktop.
	Expiring(id string, n Notice)
	// Act does it. It may take long, and ends with ctx.
	Act(ctx context.Context, id string, n Notice)
}

// Keeper applies the policies of all desktops of a host.
type Keeper struct {
	host Host
	now  func() time.Time
	seen map[string]*record // of Run's goroutine

	mu     sync.Mutex
	acting map[string]bool // guarded by mu
}

// record is what is remembered of a desktop between two looks.
type record struct {
	at     time.Time // of the last look
	cpu    time.Duration
	quiet  time.Time // since when nothing has happened
	warned map[string]bool
}

// New makes a keeper.
func New(h Host, now func() time.Time) *Keeper {
	return &Keeper{host: h, now: now, seen: make(map[string]*record), acting: make(map[string]bool)}
}

// Run looks at the desktops until ctx ends; it returns when all that it began
// has ended.
func (k *Keeper) Run(ctx context.Context) {
	var acts sync.WaitGroup
	defer acts.Wait()
	timer := time.NewTimer(Every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Reset(k.look(ctx, &acts))
	}
}

// look judges all desktops once, and says when to look again.
func (k *Keeper) look(ctx context.Context, acts *sync.WaitGroup) time.Duration {
	now := k.now()
	next := Every
	alive := map[string]bool{}
	subjects := k.host.Subjects()
	for _, s := range subjects {
		alive[s.ID] = true
		r := k.seen[s.ID]
		if r == nil {
			r = &record{at: now, cpu: s.CPU, quiet: s.Last, warned: map[string]bool{}}
			k.seen[s.ID] = r
		}
		r.measure(s, now)
		for _, n := range due(s, r) {
			left := n.At.Sub(now)
			switch {
			case left <= 0:
				k.act(ctx, acts, s.ID, n)
				r.quiet, r.warned[n.Reason] = now, false // should it fail, it has its time again
			case left <= lead(s, n) && !r.warned[n.Reason]:
				r.warned[n.Reason] = true
				k.host.Expiring(s.ID, n)
			}
			for _, wait := range []time.Duration{left, left - lead(s, n)} {
				if wait > 0 {
					next = min(next, wait)
				}
			}
		}
	}
	if k.host.Short() {
		k.press(ctx, acts, subjects, now)
	}
	for id := range k.seen {
		if !alive[id] {
			delete(k.seen, id)
		}
	}
	return max(next, time.Millisecond)
}

// press suspends the desktop that has been idle longest among those whose policy
// would suspend them later; one at a look, since each frees memory.
func (k *Keeper) press(ctx context.Context, acts *sync.WaitGroup, subjects []Subject, now time.Time) {
	var pick string
	oldest := now.Add(-shortIdle)
	for _, s := range subjects {
		suspends := s.Policy.IdleS > 0 && cmp.Or(s.Policy.IdleAction, api.IdleSuspend) == api.IdleSuspend
		if r := k.seen[s.ID]; suspends && s.State == api.StateReady && !r.quiet.After(oldest) {
			pick, oldest = s.ID, r.quiet
		}
	}
	if pick == "" {
		return
	}
	n := Notice{Action: api.IdleSuspend, Reason: ReasonMemory, At: now}
	k.host.Expiring(pick, n)
	k.act(ctx, acts, pick, n)
	k.seen[pick].quiet = now
}

// measure moves the beginning of the quiet to when something happened last.
func (r *record) measure(s Subject, now time.Time) {
	span := now.Sub(r.at)
	threshold := time.Duration(cmp.Or(s.Policy.IdleCPU, defaultIdleCPU)) * span / 100
	awake := s.Busy || s.State != api.StateReady || s.CPU-r.cpu > threshold
	quiet := r.quiet
	switch {
	case awake:
		quiet = now
	case s.Last.After(quiet):
		quiet = s.Last
	}
	if quiet.After(r.quiet) {
		r.quiet = quiet
		r.warned[ReasonIdle] = false
	}
	r.at, r.cpu = now, s.CPU
}

// due are the ends that a desktop's policy has in store.
func due(s Subject, r *record) []Notice {
	var list []Notice
	if !s.Expires.IsZero() && s.State != api.StateDeleting {
		list = append(list, Notice{Action: api.IdleDelete, Reason: ReasonTTL, At: s.Expires})
	}
	if s.Policy.IdleS > 0 && s.State == api.StateReady {
		list = append(list, Notice{
			Action: cmp.Or(s.Policy.IdleAction, api.IdleSuspend), Reason: ReasonIdle,
			At: r.quiet.Add(time.Duration(s.Policy.IdleS) * time.Second),
		})
	}
	return list
}

// lead is how long before it happens something is told.
func lead(s Subject, n Notice) time.Duration {
	whole := s.Policy.TTLS
	if n.Reason == ReasonIdle {
		whole = s.Policy.IdleS
	}
	return max(min(maxLead, time.Duration(whole)*time.Second/10), 2*Every)
}

// act begins to do something, unless that is being done.
func (k *Keeper) act(ctx context.Context, acts *sync.WaitGroup, id string, n Notice) {
	k.mu.Lock()
	busy := k.acting[id]
	k.acting[id] = true
	k.mu.Unlock()
	if busy {
		return
	}
	acts.Go(func() {
		defer func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.acting, id)
		}()
		k.host.Act(ctx, id, n)
	})
}
