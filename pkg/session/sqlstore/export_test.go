package sqlstore

import "time"

// SetNow replaces the clock of a SQLite store.
func (s *Store) SetNow(now func() time.Time) { s.now = now }
