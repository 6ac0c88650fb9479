package store

import "time"

// Settled sets how long an inode must have been left alone.
func (s *Store) Settled(d time.Duration) { s.proven.settled = d }

// Proven is how many files are known to be right.
func (s *Store) Proven() int { return len(s.proven.files) }
