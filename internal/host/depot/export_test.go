package depot

// Small sets the size of parts, for tests.
func (d *Desk) Small(bytes int) { d.partSize = bytes }
