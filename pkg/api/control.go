package api

import "time"

// ControlKind says what holds the control lease.
type ControlKind string

// Kinds of holders.
const (
	ControlAgent  ControlKind = "agent"
	ControlPerson ControlKind = "person"
)

// Control says who may send input, clipboard and window calls to a desktop. While
// nobody holds the lease every agent may.
type Control struct {
	Held    bool         `json:"held"`
	Holder  string       `json:"holder,omitempty" doc:"Name of who holds it"`
	Kind    ControlKind  `json:"kind,omitempty" enum:"agent,person"`
	Epoch   uint64       `json:"epoch" doc:"Grows with every change of holder; a call of an older one is refused"`
	Mine    bool         `json:"mine,omitempty" doc:"The caller holds it"`
	Expires time.Time    `json:"expires,omitzero" doc:"When it is lost unless its holder is heard of"`
	Asking  []ControlAsk `json:"asking,omitempty" doc:"Who asks for it, oldest first"`
}

// InControl is who has the control lease of a desktop.
type InControl struct {
	Holder string      `json:"holder"`
	Kind   ControlKind `json:"kind" enum:"agent,person"`
}

// ControlAsk is somebody who asks for the control lease.
type ControlAsk struct {
	Holder string      `json:"holder"`
	Kind   ControlKind `json:"kind"`
	Since  time.Time   `json:"since"`
}

// Changes of the control lease.
const (
	ControlRequest = "request" // only when nobody holds it; otherwise the holder hears of it
	ControlTake    = "take"    // a person from an agent too, as the policy has it; an admin from anybody
	ControlGive    = "give"    // to somebody who asks
	ControlRelease = "release"
	ControlRenew   = "renew" // the holder is still there
)

// ChangeControl asks for a change of the control lease.
type ChangeControl struct {
	Action string      `json:"action" enum:"request,take,give,release,renew"`
	Holder string      `json:"holder,omitempty" maxLength:"128" doc:"Name of the caller; default: the token"`
	As     ControlKind `json:"as,omitempty" enum:"agent,person" doc:"What the caller is; default agent, under a ticket always person"`
	Epoch  uint64      `json:"epoch,omitempty" doc:"Of give, release and renew; 0: the present one"`
	TTLS   int         `json:"ttl_s,omitempty" minimum:"0" maximum:"3600" doc:"Seconds without a sign of the holder after which it is lost; default 30"`
	To     string      `json:"to,omitempty" maxLength:"128" doc:"Of give: who asks for it; default: who has asked longest"`
}

// ControlPolicy says what people may do to a desktop that agents work on. Its zero
// value lets a person take control, lets programs run meanwhile, and shares no
// clipboard.
type ControlPolicy struct {
	Take      string `json:"take,omitempty" enum:"person,nobody" doc:"Who may take control from an agent; default person"`
	Exec      string `json:"exec,omitempty" enum:"allow,refuse" doc:"Whether programs may be started while a person has control; default allow"`
	Clipboard string `json:"clipboard,omitempty" enum:"none,in,out,both" doc:"Which way people's clipboards are joined to the desktop's; default none"`
	Drop      string `json:"drop,omitempty" maxLength:"1024" pattern:"^(/.*)?$" doc:"Folder of the guest for files that people drop; default /workspace/dropped"`
}

// DefaultDrop is where files that people drop land.
const DefaultDrop = "/workspace/dropped"

// AuditEntry is one line of what happened to a desktop's control and who watched.
type AuditEntry struct {
	Seq         int64     `json:"seq"`
	Time        time.Time `json:"time"`
	Desktop     string    `json:"desktop"`
	Incarnation string    `json:"incarnation"`
	What        string    `json:"what" doc:"E.g. control.taken, viewer.joined"`
	Epoch       uint64    `json:"epoch,omitempty"`
	Who         string    `json:"who,omitempty" doc:"Name of the holder or viewer"`
	Kind        string    `json:"kind,omitempty"`
	By          string    `json:"by,omitempty" doc:"token:ID or ticket:ID that it was done under"`
	Detail      string    `json:"detail,omitempty"`
}

// AuditLog is what happened, newest first.
type AuditLog struct {
	Entries []AuditEntry `json:"entries"`
}
