//go:build !linux

package meter

import "time"

// bootTime counts from the start of this program.
func bootTime() func() int64 {
	began := time.Now()
	return func() int64 { return int64(time.Since(began)) }
}
