package api

// Request headers.
const (
	HeaderIdempotencyKey = "Idempotency-Key" // of creating calls
	HeaderHolder         = "Deskfork-Holder" // who sends input; default: the token
	HeaderEpoch          = "Deskfork-Epoch"  // of the control lease; 0 or absent: the present one
)

// Signal is sent to an exec's process group.
type Signal struct {
	Signal string `json:"signal" doc:"Name without SIG, e.g. TERM"`
}

// CreateTicket asks for a short-lived ticket for one desktop.
type CreateTicket struct {
	Kind string `json:"kind" enum:"preview"`
	Port int    `json:"port" minimum:"1" maximum:"65535" doc:"Of the guest, loopback included"`
	TTLS int    `json:"ttl_s,omitempty" minimum:"0" maximum:"86400" doc:"Seconds; default 600"`
}

// Ticket is a secret that opens one thing for a short while.
type Ticket struct {
	Ticket string `json:"ticket"`
	URL    string `json:"url"`
}
