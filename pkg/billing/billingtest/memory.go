package billingtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

// Memory is a ledger that forgets everything with the process. Safe for
// concurrent use.
type Memory struct {
	mu    sync.Mutex
	rows  []billing.Row           // guarded by mu; by ID
	keys  map[billing.Key]bool    // guarded by mu
	marks map[string]billing.Mark // guarded by mu; by incarnation
}

var _ billing.Ledger = (*Memory)(nil)

// NewMemory makes an empty ledger.
func NewMemory() *Memory {
	return &Memory{keys: map[billing.Key]bool{}, marks: map[string]billing.Mark{}}
}

// Commit implements billing.Ledger.
func (m *Memory) Commit(ctx context.Context, b billing.Batch) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	for _, r := range b.Rows {
		if err := r.Validate(); err != nil {
			return 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	added := 0
	for _, r := range b.Rows {
		if m.keys[r.Key()] {
			continue
		}
		r.ID, r.Recorded, r.Acked = int64(len(m.rows)+1), time.Now().UTC(), time.Time{}
		m.rows, m.keys[r.Key()] = append(m.rows, r), true
		added++
	}
	for _, k := range b.Marks {
		if old, ok := m.marks[k.Incarnation]; !ok || old.Version < k.Version {
			k.Body = slices.Clone(k.Body)
			m.marks[k.Incarnation] = k
		}
	}
	for _, inc := range b.Ended {
		delete(m.marks, inc)
	}
	return added, nil
}

// Marks implements billing.Ledger.
func (m *Memory) Marks(ctx context.Context, host string) ([]billing.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []billing.Mark
	for _, k := range m.marks {
		if k.Host == host {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b billing.Mark) int { return strings.Compare(a.Incarnation, b.Incarnation) })
	return list, ctx.Err()
}

// Pull implements billing.Ledger.
func (m *Memory) Pull(ctx context.Context, q billing.Query) ([]billing.Row, error) {
	return m.list(ctx, q, false)
}

// List implements billing.Ledger.
func (m *Memory) List(ctx context.Context, q billing.Query) ([]billing.Row, error) {
	return m.list(ctx, q, true)
}

func (m *Memory) list(ctx context.Context, q billing.Query, acked bool) ([]billing.Row, error) {
	limit, err := q.Page()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := []billing.Row{}
	for _, r := range m.rows {
		if len(list) == limit {
			break
		}
		if (acked || r.Acked.IsZero()) && r.ID > q.Since && (q.Project == "" || q.Project == r.Owner.Project) &&
			(q.Session == "" || q.Session == r.Owner.Session) &&
			(q.From.IsZero() || !r.Start.Before(q.From)) && (q.To.IsZero() || r.Start.Before(q.To)) {
			list = append(list, r)
		}
	}
	return list, ctx.Err()
}

// Ack implements billing.Ledger.
func (m *Memory) Ack(ctx context.Context, project string, ids []int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	acked := 0
	for i, r := range m.rows {
		if slices.Contains(ids, r.ID) && r.Acked.IsZero() && (project == "" || project == r.Owner.Project) {
			m.rows[i].Acked = time.Now().UTC()
			acked++
		}
	}
	return acked, ctx.Err()
}
