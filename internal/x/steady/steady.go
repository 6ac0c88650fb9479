// Package steady has a clock that nobody can set.
package steady

import "time"

// Clock tells the time of now, by the host's clock, and from then on what has passed,
// whatever is done to that clock meanwhile. It stands still while the host sleeps.
func Clock() func() time.Time {
	began := time.Now()
	return func() time.Time { return began.Add(time.Since(began)) } // by its monotonic reading
}
