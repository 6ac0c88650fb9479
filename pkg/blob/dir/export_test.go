package dir

import "time"

// OnStep calls f before each step of Put.
func (s *Store) OnStep(f func(string)) { s.step = f }

// Clean removes temporary files from before t.
func (s *Store) Clean(t time.Time) error { return s.clean(t) }
