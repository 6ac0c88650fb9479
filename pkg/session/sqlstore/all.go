package sqlstore

import (
	"context"
	"fmt"

	"github.com/deskfork/deskfork/pkg/session"
)

// Publications lists what the sessions of this database have published, in no
// order. One row that does not make sense is an error of the whole.
func (s *Store) Publications(ctx context.Context) ([]session.Publication, error) {
	var all []session.Publication
	err := s.each(ctx, query(`SELECT`+rowColumns+` FROM session_fences`), func(scan func(dest ...any) error) error {
		var r row
		if err := scan(r.dest()...); err != nil {
			return err
		}
		p, err := r.last()
		if p != nil {
			all = append(all, *p)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list publications: %w", err)
	}
	return all, nil
}

// EndLeases lets every fence go and says how many were held. It is for a process
// that starts and has the database to itself: whoever held them is dead.
func (s *Store) EndLeases(ctx context.Context) (int64, error) {
	n, err := s.exec(ctx, query(`UPDATE session_fences SET expires_at_ms = 0 WHERE expires_at_ms > {now}`))
	if err != nil {
		return 0, fmt.Errorf("end leases: %w", err)
	}
	return n, nil
}
