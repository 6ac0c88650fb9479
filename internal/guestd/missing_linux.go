package guestd

const hasSystem = true

// missing is what guests of this system cannot do yet.
func missing() []string { return nil }
