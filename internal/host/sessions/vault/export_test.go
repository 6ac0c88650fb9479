package vault

// Small makes parts of so many bytes.
func (v *Vault) Small(bytes int) { v.partSize = bytes }
