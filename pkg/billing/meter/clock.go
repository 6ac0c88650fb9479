package meter

import (
	"os"
	"strings"
	"sync"
	"time"
)

// bootIDFile names the run of the kernel.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Clock answers readings of this host's clocks. Safe for concurrent use.
func Clock() func() Instant {
	boot := sync.OnceValue(func() string {
		b, err := os.ReadFile(bootIDFile)
		if id := strings.TrimSpace(string(b)); err == nil && id != "" {
			return id
		}
		// Without a name for the boot a run of this program is one: what it has
		// begun ends with it.
		return "run-" + time.Now().UTC().Format(time.RFC3339Nano)
	})
	read := bootTime()
	return func() Instant { return Instant{Boot: boot(), NS: read(), Wall: time.Now()} }
}
