package checkpoint

// Small is s with packs of so many bytes.
func (s *Store) Small(packBytes int) *Store {
	s.packSize = packBytes
	return s
}
