//go:build !linux

package account

// fileID is of no use here.
type fileID struct{}

// database is not ok: users are looked up anew each time.
func database() ([]fileID, bool) { return nil, false }
