package guest

import "time"

// Port is the TCP port on which guestd listens inside the guest.
const Port = 7070

// ConfigPath is where the guest finds its Config under QEMU (fw_cfg).
const ConfigPath = "/sys/firmware/qemu_fw_cfg/by_name/opt/deskfork/config/raw"

// Config is handed to a guest when its machine starts. Only root may read it.
type Config struct {
	Token string `json:"token"` // bearer token of the host's link
}

// Hello is the guest's half of the version and capability exchange.
type Hello struct {
	Protocol     int      `json:"protocol"` // version of this protocol
	Version      string   `json:"version"`  // of guestd
	OS           string   `json:"os"`       // linux, windows, darwin
	Arch         string   `json:"arch"`
	BootID       string   `json:"boot_id"`
	Capabilities []string `json:"capabilities"`      // served operations, by prefix: exec, files, watch, system, freeze, dial, desktop
	Missing      []string `json:"missing,omitempty"` // what this guest cannot do yet
}

// ExecID names an exec within one guest.
type ExecID string

// ExecSpec describes a program to run. Either Argv or Shell is set.
type ExecSpec struct {
	ID      ExecID            `json:"id,omitempty"` // chosen by the caller for idempotency, else made
	Argv    []string          `json:"argv,omitempty"`
	Shell   string            `json:"shell,omitempty"` // run by /bin/sh -c
	Dir     string            `json:"dir,omitempty"`   // default: the user's home
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"` // default: the handshake's user
	PTY     bool              `json:"pty,omitempty"`
	Cols    uint16            `json:"cols,omitempty"`
	Rows    uint16            `json:"rows,omitempty"`
	Stdin   bool              `json:"stdin,omitempty"`      // false: /dev/null
	Timeout time.Duration     `json:"timeout_ns,omitempty"` // 0: none; at its end the whole process group is killed
	// Ring is how many bytes of output are kept for a client that attaches
	// later. Default 1 MiB. While a client is attached nothing is dropped: the
	// program waits for it.
	Ring int `json:"ring,omitempty"`
	// KillOnDetach ends the exec when its last client goes away.
	KillOnDetach bool `json:"kill_on_detach,omitempty"`
	// DetachGrace is how long an exec with KillOnDetach waits for a client: for its
	// first one, and for the next when the last has gone. Meanwhile no output is
	// dropped: when Ring is full the program waits. 0: it ends at once.
	DetachGrace time.Duration `json:"detach_grace_ns,omitempty"`
}

// ExecStatus is the state of an exec.
type ExecStatus struct {
	ID       ExecID    `json:"id"`
	PID      int       `json:"pid"`
	Argv     []string  `json:"argv"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	Running  bool      `json:"running"`
	ExitCode int       `json:"exit_code"`        // 128+n when Signal is set
	Signal   string    `json:"signal,omitempty"` // e.g. KILL
	TimedOut bool      `json:"timed_out,omitempty"`
	Attached int       `json:"attached"`
	// Out and Err count the bytes produced so far on each stream; OutKept and
	// ErrKept say from which offset on they can still be read.
	Out     int64 `json:"out"`
	Err     int64 `json:"err"`
	OutKept int64 `json:"out_kept"`
	ErrKept int64 `json:"err_kept"`
	// In counts the bytes of standard input that were taken from clients: they
	// reach the program whatever happens to the link. Who attaches to feed it goes
	// on at this offset.
	In int64 `json:"in"`
	// SealKey is what Seal needs; of a sealed start alone.
	SealKey []byte `json:"seal_key,omitempty"`
	// Left says of a sealed program that has ended that processes which it started
	// live on, with what they know of its secrets.
	Left bool `json:"left,omitempty"`
}

// FileType is the kind of a directory entry.
type FileType string

// File types.
const (
	TypeFile    FileType = "file"
	TypeDir     FileType = "dir"
	TypeSymlink FileType = "symlink"
	TypeOther   FileType = "other"
)

// FileInfo describes one entry.
type FileInfo struct {
	Name   string    `json:"name"`
	Path   string    `json:"path"`
	Type   FileType  `json:"type"`
	Size   int64     `json:"size"` // bytes
	Mode   uint32    `json:"mode"` // permission bits
	MTime  time.Time `json:"mtime"`
	User   string    `json:"user"`
	Group  string    `json:"group"`
	Target string    `json:"target,omitempty"` // of a symlink
}

// FileChange is one event of a watch.
type FileChange struct {
	Op   string `json:"op"` // create, write, remove, rename, chmod, overflow
	Path string `json:"path"`
}

// Clipboard is one content of the clipboard in one target.
type Clipboard struct {
	Type string `json:"type"` // text/plain, text/html or image/png
	Data []byte `json:"data"`
}

// Window is one top-level window. Coordinates are screen pixels of the frame.
type Window struct {
	ID        uint64 `json:"id"`
	Title     string `json:"title"`
	Class     string `json:"class"`
	PID       int    `json:"pid"`
	X         int    `json:"x"`
	Y         int    `json:"y"`
	Width     int    `json:"width"`
	Height    int    `json:"height"`
	Active    bool   `json:"active"`
	Minimized bool   `json:"minimized"`
	Maximized bool   `json:"maximized"`
	Type      string `json:"type"` // normal, dialog, desktop, dock, other
}

// WindowOp is a change of one window.
type WindowOp struct {
	ID     uint64 `json:"id"`
	Op     string `json:"op"` // focus, move, resize, close, maximize, minimize, restore
	X      int    `json:"x,omitempty"`
	Y      int    `json:"y,omitempty"`
	Width  int    `json:"width,omitempty"`
	Height int    `json:"height,omitempty"`
}

// InputEvent is one event for the helper's own input path, in screen pixels.
type InputEvent struct {
	// Kind is move, button, key, text, scroll, paste (Text through the
	// clipboard, whose contents are put back) or release (of all that this
	// path holds down).
	Kind   string `json:"kind"`
	X      int    `json:"x,omitempty"`
	Y      int    `json:"y,omitempty"`
	Button int    `json:"button,omitempty"` // X11 numbering: 1 left, 2 middle, 3 right, 4-7 wheel, 8 back, 9 forward
	Keysym uint32 `json:"keysym,omitempty"`
	Down   bool   `json:"down,omitempty"`
	Text   string `json:"text,omitempty"`
	DX     int    `json:"dx,omitempty"` // wheel steps, right positive
	DY     int    `json:"dy,omitempty"` // wheel steps, down positive
	// PerSecond paces Text in characters; 0: the helper's default.
	PerSecond int `json:"per_second,omitempty"`
}

// Screen is the geometry of the guest's screen as its display server sees it.
type Screen struct {
	Width  int     `json:"width"`
	Height int     `json:"height"`
	Scale  float64 `json:"scale"`
}

// Point is a pointer position.
type Point struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// Launch starts a program in the desktop session, detached.
type Launch struct {
	Argv []string          `json:"argv,omitempty"`
	URL  string            `json:"url,omitempty"` // instead of Argv: opened in the default browser
	Dir  string            `json:"dir,omitempty"`
	Env  map[string]string `json:"env,omitempty"`
}
