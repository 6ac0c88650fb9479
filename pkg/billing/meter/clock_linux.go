package meter

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads CLOCK_BOOTTIME.
func bootTime() func() int64 {
	return func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			return int64(time.Since(began)) // a kernel before 2.6.39
		}
		return ts.Nano()
	}
}

var began = time.Now()
