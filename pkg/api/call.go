package api

import "time"

// Request headers.
const (
	HeaderIdempotencyKey = "Idempotency-Key" // of creating calls
	HeaderHolder         = "Deskfork-Holder" // who sends input; default: the token
	HeaderEpoch          = "Deskfork-Epoch"  // of the control lease; 0 or absent: the present one
	HeaderControlWait    = "Deskfork-Wait"   // how long a call may wait for the control lease, e.g. 30s; absent: not at all
)

// Signal is sent to an exec's process group.
type Signal struct {
	Signal string `json:"signal" doc:"Name without SIG, e.g. TERM"`
}

// Kinds of tickets.
const (
	TicketPreview = "preview" // one port of the guest
	TicketView    = "view"    // the screen, in a role
)

// CreateTicket asks for a short-lived ticket for one desktop, or to look at all of
// a project, which is of kind view.
type CreateTicket struct {
	Kind string `json:"kind" enum:"preview,view"`
	Port int    `json:"port,omitempty" minimum:"1" maximum:"65535" doc:"Of preview: port of the guest, loopback included"`
	Role string `json:"role,omitempty" enum:"view,control,admin" doc:"Of view: what its holder may do; default view"`
	TTLS int    `json:"ttl_s,omitempty" minimum:"0" maximum:"86400" doc:"Seconds; default 600, of a project 28800"`
}

// Ticket is a secret that opens one thing for a short while.
type Ticket struct {
	ID      string    `json:"id"`
	Ticket  string    `json:"ticket,omitempty" doc:"The secret, said once"`
	URL     string    `json:"url,omitempty" doc:"A link with the secret; of view behind a #, which browsers send to nobody"`
	Role    string    `json:"role,omitempty"`
	Port    int       `json:"port,omitempty"`
	Expires time.Time `json:"expires"`
}

// TicketList is the tickets of a desktop, or of a project alone, without their secrets.
type TicketList struct {
	Tickets []Ticket `json:"tickets"`
}

// OpenView exchanges a ticket for a cookie.
type OpenView struct {
	Ticket string `json:"ticket" minLength:"1" maxLength:"128"`
}

// View is what a ticket lets a browser do.
type View struct {
	Desktop string    `json:"desktop,omitempty" doc:"Id; absent: all desktops of the project"`
	Project string    `json:"project"`
	Role    string    `json:"role"`
	Expires time.Time `json:"expires,omitzero" doc:"Absent: with its token"`
}

// About is what people who watch a desktop are told of it.
type About struct {
	ID            string        `json:"id"`
	Name          string        `json:"name"`
	State         DesktopState  `json:"state"`
	Waiting       string        `json:"waiting,omitempty" doc:"What its start waits for, while that takes long"`
	Failure       *Error        `json:"failure,omitempty"`
	Display       Display       `json:"display"`
	Keyboard      string        `json:"keyboard,omitempty" doc:"XKB layout, or layout:variant"`
	ControlPolicy ControlPolicy `json:"control_policy,omitzero"`
}
