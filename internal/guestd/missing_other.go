//go:build !linux

package guestd

const hasSystem = false

// missing is what guests of this system cannot do yet.
func missing() []string {
	return []string{
		"exec: terminals (pty)",
		"exec: running as another user",
		"exec: ending background children at a deadline",
		"files: acting as another user",
		"system: clock, entropy, hostname, power, workspace mount",
	}
}
