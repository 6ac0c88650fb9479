package guest

import "time"

// MaxFreeze bounds how long a guest's workspace stands still.
const MaxFreeze = 30 * time.Second

// FreezeParams asks for the workspace's file system to stand still: programs that
// write to it wait.
type FreezeParams struct {
	ID string `json:"id"` // chosen by the caller; the same one again is the same freeze
	// For is after how long the guest thaws by itself, whatever became of its
	// host; at most MaxFreeze.
	For time.Duration `json:"for_ns"`
}

// Frozen says what stands still. All that was written before is on its disk.
type Frozen struct {
	Device string `json:"device"`
}

// ThawParams ends the freeze with this id.
type ThawParams struct {
	ID string `json:"id"`
}

// Thawed says whether the file system stood still until the thaw came: false when
// it had thawed before, by its deadline or by another hand.
type Thawed struct {
	Held bool `json:"held"`
}
