package request

import "maps"

// Merged is a map with what another one adds; nil when both are empty.
func Merged(base, more map[string]string) map[string]string {
	if len(more) == 0 {
		return base
	}
	all := maps.Clone(base)
	if all == nil {
		all = make(map[string]string, len(more))
	}
	maps.Copy(all, more)
	return all
}
