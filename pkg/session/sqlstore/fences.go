package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Fences implements session.Fences.
type Fences struct{ s *Store }

var _ session.Fences = (*Fences)(nil)

// row is a fence as it is stored.
type row struct {
	work, owner, hash     string
	generation, left      int64
	revision              int64
	publication           sql.NullString
	publicationGeneration sql.NullInt64
}

const rowColumns = ` work_id, owner_id, token_hash, generation, expires_at_ms - {now}, revision, publication_json, publication_generation`

func (r *row) dest() []any {
	return []any{&r.work, &r.owner, &r.hash, &r.generation, &r.left, &r.revision, &r.publication, &r.publicationGeneration}
}

// last is the publication of the row, nil when there is none.
func (r *row) last() (*session.Publication, error) {
	if r.generation < 1 || r.revision < 0 {
		return nil, fmt.Errorf("%w: generation %d, revision %d", session.ErrCorrupt, r.generation, r.revision)
	}
	if !r.publication.Valid {
		if r.revision != 0 || r.publicationGeneration.Valid {
			return nil, fmt.Errorf("%w: revision %d without a publication", session.ErrCorrupt, r.revision)
		}
		return nil, nil
	}
	if r.revision < 1 || r.publicationGeneration.Int64 < 1 || r.publicationGeneration.Int64 > r.generation {
		return nil, fmt.Errorf("%w: publication of generation %d and revision %d under generation %d",
			session.ErrCorrupt, r.publicationGeneration.Int64, r.revision, r.generation)
	}
	d, err := session.ParseDraft(r.publication.String)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	}
	return &session.Publication{Draft: d, Generation: r.publicationGeneration.Int64, Revision: r.revision}, nil
}

// acquireTries bounds how often a holder may vanish between two statements.
const acquireTries = 3

// Acquire implements session.Fences.
func (f *Fences) Acquire(ctx context.Context, scope session.Scope, by session.Claimant, ttl time.Duration) (session.Claim, error) {
	t := session.Tenure{Scope: scope, Owner: by.Owner, Generation: 1}
	err := errors.Join(t.Validate(), checkTTL(ttl))
	if err == nil && by.Token.Reveal() == "" {
		err = errors.New("the claimant has no token")
	}
	if err != nil {
		return session.Claim{}, fmt.Errorf("acquire fence: %w", err)
	}
	for range acquireTries {
		claim, gone, err := f.acquire(ctx, t, by, ttl)
		if !gone {
			return claim, err
		}
	}
	return session.Claim{}, &session.ConflictError{}
}

// acquire takes the session if it is free, and otherwise looks who has it; gone
// says that nobody had it any more by then.
func (f *Fences) acquire(ctx context.Context, t session.Tenure, by session.Claimant, ttl time.Duration) (_ session.Claim, gone bool, _ error) {
	var r row
	took, err := f.s.one(ctx, query(`INSERT INTO session_fences (scope_key, work_id, generation, owner_id, token_hash, expires_at_ms)
		VALUES ($1, $2, 1, $3, $4, {now} + $5)
		ON CONFLICT (scope_key) DO UPDATE SET work_id = excluded.work_id, generation = session_fences.generation + 1,
			owner_id = excluded.owner_id, token_hash = excluded.token_hash, expires_at_ms = {now} + $5
		WHERE session_fences.expires_at_ms <= {now} AND session_fences.generation >= 1
			AND coalesce(session_fences.publication_generation, 0) <= session_fences.generation
		RETURNING`+rowColumns,
		t.Scope.Key(), t.Scope.Work, t.Owner, by.Token.Hash(), ttl.Milliseconds()), r.dest()...)
	if err == nil && !took {
		var found bool
		found, err = f.s.one(ctx, query(`SELECT`+rowColumns+` FROM session_fences WHERE scope_key = $1`, t.Scope.Key()), r.dest()...)
		if err == nil && !found {
			return session.Claim{}, true, nil
		}
	}
	if err != nil {
		return session.Claim{}, false, fmt.Errorf("acquire fence of %s: %w", t.Scope.Key(), err)
	}
	t.Generation = r.generation
	claim := session.Claim{Fence: session.Fence{Tenure: t, Token: by.Token}, Left: time.Duration(r.left) * time.Millisecond}
	claim.Last, err = r.last()
	switch mine := r.owner == by.Owner && r.hash == by.Token.Hash() && r.work == t.Scope.Work; {
	case err != nil && mine:
		err = errors.Join(err, f.Release(ctx, claim.Fence))
		fallthrough
	case err != nil:
		return session.Claim{}, false, fmt.Errorf("acquire fence of %s: %w", t.Scope.Key(), err)
	case r.left <= 0:
		return session.Claim{}, true, nil
	case !mine:
		return session.Claim{}, false, &session.ConflictError{Left: claim.Left}
	}
	return claim, false, nil
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > 24*time.Hour {
		return fmt.Errorf("a lease of %s: it must last from 1 ms to 24 h", ttl)
	}
	return nil
}

// held matches the row of a fence that is held now; its arguments are those of
// proof.
const held = ` scope_key = $1 AND generation = $2 AND owner_id = $3 AND token_hash = $4 AND expires_at_ms > {now}`

func proof(f session.Fence) []any {
	return []any{f.Scope.Key(), f.Generation, f.Owner, f.Token.Hash()}
}

// Renew implements session.Fences.
func (f *Fences) Renew(ctx context.Context, fence session.Fence, ttl time.Duration) (time.Duration, error) {
	if err := checkTTL(ttl); err != nil {
		return 0, fmt.Errorf("renew fence: %w", err)
	}
	var left int64
	found, err := f.s.one(ctx, query(`UPDATE session_fences SET expires_at_ms = {now} + $5 WHERE`+held+` RETURNING expires_at_ms - {now}`,
		append(proof(fence), ttl.Milliseconds())...), &left)
	if err != nil {
		return 0, fmt.Errorf("renew fence: %w", err)
	}
	if !found {
		return 0, session.ErrLost
	}
	return time.Duration(left) * time.Millisecond, nil
}

// Current implements session.Fences.
func (f *Fences) Current(ctx context.Context, fence session.Fence) error {
	var one int64
	found, err := f.s.one(ctx, query(`SELECT 1 FROM session_fences WHERE`+held, proof(fence)...), &one)
	if err != nil {
		return fmt.Errorf("check fence: %w", err)
	}
	if !found {
		return session.ErrLost
	}
	return nil
}

// Publish implements session.Fences.
func (f *Fences) Publish(ctx context.Context, fence session.Fence, d session.Draft) (session.Publication, error) {
	text, err := d.Canonical()
	if err != nil {
		return session.Publication{}, fmt.Errorf("publish: %w", err)
	}
	p := session.Publication{Draft: d, Generation: fence.Generation}
	found, err := f.s.one(ctx, query(`UPDATE session_fences SET
			revision = CASE WHEN publication_generation = generation AND publication_json = $5 THEN revision ELSE revision + 1 END,
			publication_json = $5, publication_generation = generation
		WHERE`+held+` RETURNING revision`, append(proof(fence), text)...), &p.Revision)
	if err != nil {
		return session.Publication{}, fmt.Errorf("publish: %w", err)
	}
	if !found {
		return session.Publication{}, session.ErrLost
	}
	return p, nil
}

// Release implements session.Fences.
func (f *Fences) Release(ctx context.Context, fence session.Fence) error {
	_, err := f.s.exec(ctx, query(`UPDATE session_fences SET expires_at_ms = 0 WHERE`+held, proof(fence)...))
	if err != nil {
		return fmt.Errorf("release fence: %w", err)
	}
	return nil
}

// Published implements session.Fences.
func (f *Fences) Published(ctx context.Context, scope session.Scope) (*session.Publication, error) {
	var r row
	found, err := f.s.one(ctx, query(`SELECT`+rowColumns+` FROM session_fences WHERE scope_key = $1`, scope.Key()), r.dest()...)
	if err == nil && found {
		var p *session.Publication
		if p, err = r.last(); err == nil {
			return p, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read publication of %s: %w", scope.Key(), err)
	}
	return nil, nil
}
