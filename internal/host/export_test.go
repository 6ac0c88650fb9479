package host

// Stock counts the spares that can be taken: proven clones, and processes.
func (h *Host) Stock() (warm, prepared int) { return h.pool.Size() }
