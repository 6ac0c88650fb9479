package meter

import (
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

// Instant is a reading of a host's clocks.
type Instant struct {
	// Boot names the run of the kernel that NS counts from.
	Boot string `json:"boot"`
	// NS is CLOCK_BOOTTIME in nanoseconds: it never jumps, and counts while the
	// host sleeps.
	NS int64 `json:"ns"`
	// Wall is read once for each incarnation and boot, to say at which date its
	// windows lie.
	Wall time.Time `json:"wall"`
}

// Type is what happened.
type Type string

// Types of facts. All but Lost prove that the incarnation has lived until then.
const (
	// Start begins an incarnation, running; of one that is known it does nothing.
	Start Type = "start"
	// Stop ends it at this instant.
	Stop Type = "stop"
	// Lost ends it at its last proof of life: when it died nobody knows.
	Lost Type = "lost"
	// Pause and Resume say that its vCPUs stand still, or run again.
	Pause  Type = "pause"
	Resume Type = "resume"
	// Alive says that it still is as it was.
	Alive Type = "alive"
	// Adopt says that whoever counted was gone for a while and finds the
	// incarnation alive, with its vCPUs standing still when Paused. The time in
	// between is active when it was running before and runs now; viewers and
	// browser pages of before are not counted for it.
	Adopt Type = "adopt"
	// Pages says how many pages a browser has open now, Viewers how many people
	// watch now.
	Pages   Type = "pages"
	Viewers Type = "viewers"
	// Egress is a counter of bytes that has reached Count; one that is smaller
	// than before has begun again at 0.
	Egress Type = "egress"
	// Disk is how many bytes the disks take from now on.
	Disk Type = "disk"
)

// Subject is what is counted under an incarnation's name.
type Subject struct {
	Owner     billing.Owner `json:"owner"`
	VCPUs     int64         `json:"vcpus,omitempty"`
	MemoryMiB int64         `json:"memory_mib,omitempty"`
	// Session says that it is a session rather than a machine: it counts
	// billing.SessionAliveSeconds alone, and may outlive a boot of its host.
	Session bool `json:"session,omitempty"`
}

// Fact is one thing that happened to an incarnation.
type Fact struct {
	Incarnation string  `json:"incarnation"`
	Type        Type    `json:"type"`
	At          Instant `json:"at"`
	Subject     Subject `json:"subject,omitzero"` // of Start
	Count       int64   `json:"count,omitempty"`  // of Pages, Viewers, Egress, Disk; negative counts as 0
	Paused      bool    `json:"paused,omitempty"` // of Adopt
}
