package guest

import "time"

// GenerationPath is where programs in the guest read the generation: one line,
// replaced as a whole whenever this machine has become another one.
const GenerationPath = "/run/deskfork/generation"

// Handshake prepares a guest for its user after a boot, a clone or a resume. It
// may be repeated. One whose Generation is not the guest's present one begins a
// new life: every other link of the guest is cut, since in a clone their other
// ends are not there any more; what runs goes on, its output is kept.
type Handshake struct {
	Now        time.Time         `json:"now"`     // the host's clock when it was sent; zero: the guest's stays
	Entropy    []byte            `json:"entropy"` // at least 32 bytes for the kernel's pool
	Generation string            `json:"generation"`
	Token      string            `json:"token,omitempty"`     // replaces the link's token
	Workspace  string            `json:"workspace,omitempty"` // block device to mount at /workspace, unless it is mounted
	Env        map[string]string `json:"env,omitempty"`       // default environment of execs and launched programs
	User       string            `json:"user,omitempty"`      // default user of execs
	// WorkspaceBytes is the size of the block device; a guest that remembers
	// another one looks again before it mounts. 0: not checked.
	WorkspaceBytes int64 `json:"workspace_bytes,omitempty"`
}

// Handshaken answers a Handshake.
type Handshaken struct {
	ClockState

	// UUID was drawn from the guest's kernel after it took the new entropy. Two
	// clones that answer with the same one share their randomness: neither may
	// be used.
	UUID       string `json:"uuid"`
	Generation string `json:"generation"`
	Renewed    bool   `json:"renewed"`             // the generation began with this handshake
	Workspace  string `json:"workspace,omitempty"` // device mounted at /workspace; empty: none

	// Skew is by how much the guest's clock is ahead of the host's, as the
	// client measured it; the truth lies within Skew ± Margin. They do not
	// travel, and are zero when no clock was set.
	Skew   time.Duration `json:"-"`
	Margin time.Duration `json:"-"`
}

// ClockError bounds how far the guest's clock may be from the host's.
func (h Handshaken) ClockError() time.Duration { return h.Skew.Abs() + h.Margin }

// ClockParams sets the clock to Now, or moves it by Step. Neither: the clock is
// only read.
type ClockParams struct {
	Now  time.Time     `json:"now,omitzero"`
	Step time.Duration `json:"step_ns,omitempty"`
}

// ClockState is the guest's wall clock as an answer left it, and how long
// before that the request had come. A round trip without Served is what the
// clock may be off by.
type ClockState struct {
	Clock  time.Time     `json:"clock"`
	Served time.Duration `json:"served_ns"`
}

// GenerationEvent says which generation began.
type GenerationEvent struct {
	Generation string `json:"generation"`
}
