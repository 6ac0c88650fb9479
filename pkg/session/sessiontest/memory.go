package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Memory is fences, orphans and intents in memory. Its clock is time.Now, which a
// synctest bubble holds, plus what Advance added.
type Memory struct {
	mu      sync.Mutex
	ahead   time.Duration
	fences  map[string]*fenceRow
	orphans map[string]*orphanRow
	intents map[string]*intentRow
}

type fenceRow struct {
	tenure  session.Tenure
	token   session.Secret
	expires time.Time
	text    string
	last    *session.Publication
}

type orphanRow struct {
	session.Orphan

	enqueued, next time.Time
}

type intentRow struct {
	session.Intent

	begun time.Time
}

// NewMemory makes empty stores.
func NewMemory() *Memory {
	return &Memory{fences: map[string]*fenceRow{}, orphans: map[string]*orphanRow{}, intents: map[string]*intentRow{}}
}

// Stores gives the three ports.
func (m *Memory) Stores() session.Stores {
	return session.Stores{Fences: (*memoryFences)(m), Orphans: (*memoryOrphans)(m), Intents: (*memoryIntents)(m)}
}

// Advance moves the stores' clock, and nobody else's.
func (m *Memory) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += d
}

func (m *Memory) now() time.Time { return time.Now().Add(m.ahead) }

// Dump is every row as text.
func (m *Memory) Dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	for _, f := range m.fences {
		fmt.Fprintf(&text, "fence %+v %s %s %s\n", f.tenure, f.token, f.expires, f.text)
	}
	for _, o := range m.orphans {
		fmt.Fprintf(&text, "orphan %+v\n", o.Orphan)
	}
	for _, i := range m.intents {
		fmt.Fprintf(&text, "intent %+v\n", i.Intent)
	}
	return text.String()
}

type (
	memoryFences  Memory
	memoryOrphans Memory
	memoryIntents Memory
)

func (f *memoryFences) m() *Memory  { return (*Memory)(f) }
func (o *memoryOrphans) m() *Memory { return (*Memory)(o) }
func (i *memoryIntents) m() *Memory { return (*Memory)(i) }

// enter is a transaction: it takes the lock unless ctx has ended.
func (m *Memory) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

// Acquire implements session.Fences.
func (f *memoryFences) Acquire(ctx context.Context, scope session.Scope, by session.Claimant, ttl time.Duration) (session.Claim, error) {
	m := f.m()
	leave, err := m.enter(ctx)
	if err != nil {
		return session.Claim{}, err
	}
	defer leave()
	t := session.Tenure{Scope: scope, Owner: by.Owner, Generation: 1}
	if err := t.Validate(); err != nil || ttl < time.Millisecond || by.Token.Reveal() == "" {
		return session.Claim{}, errors.Join(errors.New("bad claim"), err)
	}
	row := m.fences[scope.Key()]
	switch {
	case row == nil:
		row = &fenceRow{tenure: t}
		m.fences[scope.Key()] = row
	case !row.expires.After(m.now()):
		t.Generation = row.tenure.Generation + 1
	case row.tenure.Owner == by.Owner && row.token.Equal(by.Token) && row.tenure.Scope == scope:
		return m.claim(row), nil
	default:
		return session.Claim{}, &session.ConflictError{Left: row.expires.Sub(m.now())}
	}
	row.tenure, row.token, row.expires = t, by.Token, m.now().Add(ttl)
	return m.claim(row), nil
}

func (m *Memory) claim(row *fenceRow) session.Claim {
	return session.Claim{
		Fence: session.Fence{Tenure: row.tenure, Token: row.token},
		Left:  row.expires.Sub(m.now()), Last: clone(row.last),
	}
}

func clone(p *session.Publication) *session.Publication {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// held runs fn on the row of a fence that is held.
func (f *memoryFences) held(ctx context.Context, fence session.Fence, fn func(*fenceRow)) error {
	leave, err := f.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	row := f.fences[fence.Scope.Key()]
	if row == nil || row.tenure.Owner != fence.Owner || row.tenure.Generation != fence.Generation ||
		!row.token.Equal(fence.Token) || !row.expires.After(f.m().now()) {
		return session.ErrLost
	}
	fn(row)
	return nil
}

// Renew implements session.Fences.
func (f *memoryFences) Renew(ctx context.Context, fence session.Fence, ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond {
		return 0, errors.New("bad ttl")
	}
	return ttl, f.held(ctx, fence, func(row *fenceRow) { row.expires = f.m().now().Add(ttl) })
}

// Current implements session.Fences.
func (f *memoryFences) Current(ctx context.Context, fence session.Fence) error {
	return f.held(ctx, fence, func(*fenceRow) {})
}

// Publish implements session.Fences.
func (f *memoryFences) Publish(ctx context.Context, fence session.Fence, d session.Draft) (session.Publication, error) {
	text, err := d.Canonical()
	if err != nil {
		return session.Publication{}, err
	}
	var p session.Publication
	err = f.held(ctx, fence, func(row *fenceRow) {
		p = session.Publication{Draft: d, Generation: fence.Generation, Revision: 1}
		if row.last != nil {
			p.Revision = row.last.Revision + 1
			if row.last.Generation == fence.Generation && row.text == text {
				p.Revision = row.last.Revision
			}
		}
		row.last, row.text = clone(&p), text
	})
	return p, err
}

// Release implements session.Fences.
func (f *memoryFences) Release(ctx context.Context, fence session.Fence) error {
	err := f.held(ctx, fence, func(row *fenceRow) { row.expires = time.Time{} })
	if errors.Is(err, session.ErrLost) {
		return nil
	}
	return err
}

// Published implements session.Fences.
func (f *memoryFences) Published(ctx context.Context, scope session.Scope) (*session.Publication, error) {
	leave, err := f.m().enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if row := f.fences[scope.Key()]; row != nil {
		return clone(row.last), nil
	}
	return nil, nil
}

// Enqueue implements session.Orphans.
func (o *memoryOrphans) Enqueue(ctx context.Context, orphan session.Orphan) error {
	leave, err := o.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := orphan.Validate(); err != nil {
		return err
	}
	now := o.m().now()
	if row, ok := o.orphans[orphan.ID]; ok {
		row.LastError = session.ErrorText(orphan.LastError)
		return nil
	}
	orphan.Attempts, orphan.LastError = 0, session.ErrorText(orphan.LastError)
	o.orphans[orphan.ID] = &orphanRow{Orphan: orphan, enqueued: now, next: now}
	return nil
}

// Claim implements session.Orphans.
func (o *memoryOrphans) Claim(ctx context.Context, limit int, hold time.Duration) ([]session.Orphan, error) {
	leave, err := o.m().enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if limit < 1 || hold <= 0 {
		return nil, errors.New("bad limit or hold")
	}
	now := o.m().now()
	due := slices.SortedFunc(maps.Values(o.orphans), func(a, b *orphanRow) int {
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.ID, b.ID))
	})
	var all []session.Orphan
	for _, row := range due {
		if len(all) == limit || row.next.After(now) {
			break
		}
		row.next = now.Add(hold)
		row.Age = now.Sub(row.enqueued)
		all = append(all, row.Orphan)
	}
	return all, nil
}

// Resolve implements session.Orphans.
func (o *memoryOrphans) Resolve(ctx context.Context, id string) error {
	leave, err := o.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	delete(o.orphans, id)
	return nil
}

// Failed implements session.Orphans.
func (o *memoryOrphans) Failed(ctx context.Context, id, lastError string, delay time.Duration) error {
	leave, err := o.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	row, ok := o.orphans[id]
	if !ok {
		return session.ErrNotFound
	}
	row.Attempts++
	row.LastError, row.next = session.ErrorText(lastError), o.m().now().Add(delay)
	return nil
}

// Backlog implements session.Orphans.
func (o *memoryOrphans) Backlog(ctx context.Context) (session.Backlog, error) {
	leave, err := o.m().enter(ctx)
	if err != nil {
		return session.Backlog{}, err
	}
	defer leave()
	b := session.Backlog{Total: len(o.orphans)}
	for _, row := range o.orphans {
		b.MaxAttempts = max(b.MaxAttempts, row.Attempts)
		b.Oldest = max(b.Oldest, o.m().now().Sub(row.enqueued))
	}
	return b, nil
}

// Begin implements session.Intents.
func (i *memoryIntents) Begin(ctx context.Context, intent session.Intent) error {
	leave, err := i.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := intent.Tenure.Validate(); err != nil {
		return err
	}
	if _, ok := i.intents[intent.ID]; !ok {
		i.intents[intent.ID] = &intentRow{Intent: intent, begun: i.m().now()}
	}
	return nil
}

// Bind implements session.Intents.
func (i *memoryIntents) Bind(ctx context.Context, id string, l session.Lease) error {
	leave, err := i.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	row, ok := i.intents[id]
	if !ok {
		return session.ErrNotFound
	}
	row.Lease = &l
	return l.Validate()
}

// Resolve implements session.Intents.
func (i *memoryIntents) Resolve(ctx context.Context, id string) error {
	leave, err := i.m().enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	delete(i.intents, id)
	return nil
}

// Abandoned implements session.Intents.
func (i *memoryIntents) Abandoned(ctx context.Context, after string, limit int) (page []session.Intent, next string, err error) {
	leave, err := i.m().enter(ctx)
	if err != nil {
		return nil, "", err
	}
	defer leave()
	now := i.m().now()
	for _, id := range slices.Sorted(maps.Keys(i.intents)) {
		row := i.intents[id]
		fence := i.fences[row.Tenure.Scope.Key()]
		live := fence != nil && fence.tenure.Generation == row.Tenure.Generation && fence.expires.After(now)
		if id <= after || live {
			continue
		}
		in := row.Intent
		in.Age = now.Sub(row.begun)
		page = append(page, in)
		if len(page) == limit {
			return page, id, nil
		}
	}
	return page, "", nil
}

// Publications lists what was published, in no order.
func (m *Memory) Publications(context.Context) ([]session.Publication, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []session.Publication
	for _, f := range m.fences {
		if f.last != nil {
			all = append(all, *f.last)
		}
	}
	return all, nil
}

// EndLeases lets every fence go.
func (m *Memory) EndLeases() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.fences {
		f.expires = time.Time{}
	}
}
