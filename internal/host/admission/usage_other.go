//go:build !linux

package admission

import "errors"

// HostUsage is known on Linux only.
func HostUsage(string) (Usage, error) {
	return Usage{}, errors.ErrUnsupported
}
