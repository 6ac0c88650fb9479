package api

import "time"

// Exec asks for a program to be run in the guest. Either Argv or Shell is set.
type Exec struct {
	ID    string            `json:"id,omitempty" doc:"Chosen by the caller, so that a repeated call starts nothing twice"`
	Argv  []string          `json:"argv,omitempty"`
	Shell string            `json:"shell,omitempty" doc:"Run by /bin/sh -c"`
	Dir   string            `json:"dir,omitempty" doc:"Default: the user's home"`
	Env   map[string]string `json:"env,omitempty"`
	User  string            `json:"user,omitempty" doc:"Default agent"`
	PTY   bool              `json:"pty,omitempty"`
	Cols  uint16            `json:"cols,omitempty"`
	Rows  uint16            `json:"rows,omitempty"`
	Stdin bool              `json:"stdin,omitempty" doc:"A client will attach and write; else /dev/null"`
	// Input is written to standard input of a one-shot exec.
	Input        []byte `json:"input,omitempty" doc:"Base64; one-shot calls only"`
	TimeoutMS    int64  `json:"timeout_ms,omitempty" minimum:"0" doc:"The process group is killed then; 0: none"`
	KillOnDetach bool   `json:"kill_on_detach,omitempty"`
}

// ExecResult answers a one-shot exec.
type ExecResult struct {
	ExecStatus

	Stdout []byte `json:"stdout" doc:"Base64"`
	Stderr []byte `json:"stderr" doc:"Base64"`
	// Truncated is set when output was over the one-shot limit of 16 MiB a
	// stream; attach over the WebSocket for more.
	Truncated bool `json:"truncated,omitempty"`
}

// ExecStatus is the state of an exec.
type ExecStatus struct {
	ID       string    `json:"id"`
	PID      int       `json:"pid"`
	Argv     []string  `json:"argv"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended,omitzero"`
	Running  bool      `json:"running"`
	ExitCode int       `json:"exit_code" doc:"128+n when ended by signal n"`
	Signal   string    `json:"signal,omitempty"`
	TimedOut bool      `json:"timed_out,omitempty"`
	Out      int64     `json:"out_bytes"`
	Err      int64     `json:"err_bytes"`
	In       int64     `json:"in_bytes" doc:"Standard input taken so far; who attaches to feed it goes on at this offset"`
}

// ExecList is a list of execs.
type ExecList struct {
	Execs []ExecStatus `json:"execs"`
}

// Channels of an exec's WebSocket: the first byte of each binary message. The
// rest of the message is the stream's bytes.
const (
	ChannelStdin  byte = 0 // client to server
	ChannelStdout byte = 1 // server to client
	ChannelStderr byte = 2 // server to client
)

// ExecMessage is a text message on an exec's WebSocket.
//
// Client to server: "eof" (half-closes stdin), "resize" (Cols, Rows),
// "signal" (Signal). Server to client: "attached" (first message: Status,
// OutFrom, ErrFrom; standard input goes on at Status.In), "taken" (In: input
// below this offset need not be sent again when the link breaks), "stopped" (no
// input is wanted any more, or another client feeds it), "end" (last message:
// Status), "error" (last message).
type ExecMessage struct {
	Kind    string      `json:"kind"`
	Cols    uint16      `json:"cols,omitempty"`
	Rows    uint16      `json:"rows,omitempty"`
	Signal  string      `json:"signal,omitempty"` // name without SIG, e.g. TERM
	Status  *ExecStatus `json:"status,omitempty"`
	OutFrom int64       `json:"out_from,omitempty"` // offset of the first byte that follows
	ErrFrom int64       `json:"err_from,omitempty"`
	In      int64       `json:"in,omitempty"`
	Error   *Error      `json:"error,omitempty"`
}

// SubprotocolExec is the WebSocket subprotocol of an exec's attach.
const SubprotocolExec = "deskfork-exec-v1"
