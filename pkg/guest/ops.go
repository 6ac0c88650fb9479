package guest

import "time"

// Protocol is the version of the protocol between host and guestd.
const Protocol = 1

// Operations of guestd itself. Streams are named in the order in which the
// request opens them.
const (
	OpHello     = "hello"     // HelloParams → Hello
	OpHandshake = "handshake" // Handshake → Handshaken

	OpExecStart = "exec.start" // ExecSpec → ExecStatus
	// A sealed start has the program begin once exec.unseal brought its secrets,
	// which only a process that is gone by then could read: see Secrets.
	OpExecStartSealed = "exec.start_sealed" // ExecSpec → ExecStatus
	OpExecUnseal      = "exec.unseal"       // ExecRef → nil; stream: what Seal made; repeated: nothing
	OpExecRun         = "exec.run"          // ExecRunParams → ExecRunResult; streams: stdin and stdout, stderr
	OpExecAttach      = "exec.attach"       // ExecAttachParams → ExecAttached; streams: stdin and stdout, stderr
	OpExecWait        = "exec.wait"         // ExecRef → ExecStatus
	OpExecStatus      = "exec.status"       // ExecRef → ExecStatus
	OpExecList        = "exec.list"         // nil → ExecList
	OpExecSignal      = "exec.signal"       // ExecSignal → nil
	OpExecResize      = "exec.resize"       // ExecResize → nil
	OpExecRemove      = "exec.remove"       // ExecRef → nil; kills what still runs

	OpFileStat   = "files.stat"    // PathParams → FileInfo
	OpFileList   = "files.list"    // ListParams → nil; stream: one FileInfo a line
	OpFileRead   = "files.read"    // ReadParams → FileInfo; stream: the bytes
	OpFileWrite  = "files.write"   // WriteParams → FileInfo; stream: the bytes
	OpFileMkdir  = "files.mkdir"   // MkdirParams → FileInfo
	OpFileRemove = "files.remove"  // RemoveParams → nil
	OpFileRename = "files.rename"  // RenameParams → nil
	OpFileChmod  = "files.chmod"   // ChmodParams → nil
	OpFileChown  = "files.chown"   // ChownParams → nil
	OpTarOut     = "files.tar_out" // PathParams → nil; stream: the archive
	OpTarIn      = "files.tar_in"  // PathParams → TarResult; stream: the archive
	OpWatch      = "watch"         // WatchParams → nil; stream: one FileChange a line

	OpSetClock = "system.set_clock" // ClockParams → ClockState
	OpReseed   = "system.reseed"    // ReseedParams → nil
	OpHostname = "system.hostname"  // HostnameParams → nil
	OpPower    = "system.power"     // PowerParams → nil
	OpInfo     = "system.info"      // nil → Info
	OpFreeze   = "system.freeze"    // FreezeParams → Frozen
	OpThaw     = "system.thaw"      // ThawParams → Thawed

	OpDial = "dial" // DialParams → nil; stream: the connection
)

// Events.
const (
	EventDisplay    = "display"    // the desktop's helper came or went (DisplayEvent)
	EventGeneration = "generation" // a handshake began another generation (GenerationEvent)
)

// HelloParams is the host's half of the version exchange.
type HelloParams struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the host
}

// ExecRunParams starts a program and waits for its end in one round trip.
type ExecRunParams struct {
	Spec ExecSpec `json:"spec"`
	// Stdin is all or the beginning of the standard input; more of it comes on
	// the stream if More is set.
	Stdin []byte `json:"stdin,omitempty"`
	More  bool   `json:"more,omitempty"`
}

// ExecRunResult is the end of an ExecRun. Output that was short is in it;
// otherwise it went through the streams.
type ExecRunResult struct {
	Status ExecStatus `json:"status"`
	Stdout []byte     `json:"stdout,omitempty"`
	Stderr []byte     `json:"stderr,omitempty"`
}

// ExecAttachParams asks for the output from the given offsets on. A negative
// offset means from now on.
type ExecAttachParams struct {
	ID      ExecID `json:"id"`
	OutFrom int64  `json:"out_from"`
	ErrFrom int64  `json:"err_from"`
	Stdin   bool   `json:"stdin"`
	// Lag is how many of the bytes that the client has read it may ask for again
	// when it attaches anew; they are kept. At most the exec's Ring.
	Lag int64 `json:"lag,omitempty"`
}

// ExecAttached says where the streams really start: later than asked when the
// ring has dropped bytes.
type ExecAttached struct {
	Status  ExecStatus `json:"status"`
	OutFrom int64      `json:"out_from"`
	ErrFrom int64      `json:"err_from"`
}

// ExecRef names an exec.
type ExecRef struct {
	ID ExecID `json:"id"`
}

// ExecList holds running and lately ended execs, oldest first.
type ExecList struct {
	Execs []ExecStatus `json:"execs"`
}

// ExecSignal sends a signal, e.g. TERM, to the exec's process group; KILL goes
// to every process that the exec has started.
type ExecSignal struct {
	ID     ExecID `json:"id"`
	Signal string `json:"signal"`
}

// ExecResize sets the size of the exec's terminal, in characters.
type ExecResize struct {
	ID   ExecID `json:"id"`
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// PathParams names one path. Paths are absolute, or relative to the home of
// the acting user, which ~ names too. User is who acts; empty: the handshake's
// user.
type PathParams struct {
	Path string `json:"path"`
	User string `json:"user,omitempty"`
}

// ListParams asks for the entries below a directory.
type ListParams struct {
	PathParams
	Recursive bool `json:"recursive,omitempty"`
}

// ReadParams asks for N bytes from Offset on; a negative N means all.
type ReadParams struct {
	PathParams
	Offset int64 `json:"offset,omitempty"`
	N      int64 `json:"n"`
}

// WriteParams describes an upload. Without Append and Offset the file is
// replaced as a whole when its last byte has come.
type WriteParams struct {
	PathParams
	Mode        uint32 `json:"mode,omitempty"` // 0: as it was, else 0644
	Append      bool   `json:"append,omitempty"`
	Offset      int64  `json:"offset,omitempty"` // above 0: written in place from there
	Exclusive   bool   `json:"exclusive,omitempty"`
	MakeParents bool   `json:"make_parents,omitempty"`
}

// MkdirParams makes a directory.
type MkdirParams struct {
	PathParams
	Mode    uint32 `json:"mode,omitempty"` // 0: 0755
	Parents bool   `json:"parents,omitempty"`
}

// RemoveParams removes a file or an empty directory, or a whole tree.
type RemoveParams struct {
	PathParams
	Recursive bool `json:"recursive,omitempty"`
}

// RenameParams moves Path to To.
type RenameParams struct {
	PathParams
	To string `json:"to"`
}

// ChmodParams sets permission bits.
type ChmodParams struct {
	PathParams
	Mode uint32 `json:"mode"`
}

// ChownParams sets owner and group by name or number; an empty one stays.
type ChownParams struct {
	PathParams
	Owner string `json:"owner,omitempty"`
	Group string `json:"group,omitempty"`
}

// TarResult says what an archive became.
type TarResult struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// WatchParams asks for the changes of a file or directory.
type WatchParams struct {
	PathParams
	Recursive bool `json:"recursive,omitempty"`
}

// ReseedParams carries random bytes for the kernel.
type ReseedParams struct {
	Entropy []byte `json:"entropy"`
}

// HostnameParams carries a new hostname.
type HostnameParams struct {
	Name string `json:"name"`
}

// Ways to end a guest.
const (
	PowerOff    = "off"
	PowerReboot = "reboot"
)

// PowerParams says how the guest ends.
type PowerParams struct {
	Mode string `json:"mode"` // PowerOff or PowerReboot
}

// Disk is the use of one mounted file system, in bytes.
type Disk struct {
	Path  string `json:"path"`
	Total uint64 `json:"total"`
	Free  uint64 `json:"free"` // for ordinary users
}

// Info is the state of the guest's system.
type Info struct {
	Hostname     string        `json:"hostname"`
	Kernel       string        `json:"kernel"`
	Now          time.Time     `json:"now"`
	Uptime       time.Duration `json:"uptime_ns"`
	Load         [3]float64    `json:"load"` // 1, 5 and 15 minutes
	MemTotal     uint64        `json:"mem_total"`
	MemAvailable uint64        `json:"mem_available"`
	Disks        []Disk        `json:"disks"`
	Generation   string        `json:"generation,omitempty"`
	// Boot is what systemd-analyze says about the boot; empty until it is over.
	Boot string `json:"boot,omitempty"`
}

// DialParams names a TCP port as the guest sees it.
type DialParams struct {
	Host string `json:"host,omitempty"` // default: localhost
	Port int    `json:"port"`
}

// DisplayEvent says whether the desktop's helper is there.
type DisplayEvent struct {
	Up bool `json:"up"`
}
