package api

// SubprotocolProcess is the WebSocket subprotocol of a sandbox's processes.
//
// A binary message is a channel byte (ChannelStdin, ChannelStdout, ChannelStderr), the
// offset of its first byte in that stream as 8 bytes, the highest first, and bytes.
// Text messages are ProcessMessage. A sender may be ahead of what the other end has
// acknowledged by the window that "started" tells.
const SubprotocolProcess = "deskfork-process-v1"

// ProcessMessage is a text message on a process's WebSocket.
//
// Client to server: "spawn" or "attach" as the first message; then "stdin_close"
// (all input has been sent), "kill" (Signal, to the process group), "ack" (Channel,
// Seq: all bytes below it were consumed). Server to client: "started" (first message),
// "ack" (of standard input: bytes below Seq need not be sent again), "stdin_close" (no
// input is wanted any more), "exit" (after the last output), "error" (last message;
// when it is retryable, attach again).
type ProcessMessage struct {
	Type string `json:"type" enum:"spawn,attach,started,stdin_close,kill,ack,exit,error"`

	// Of spawn. ID is chosen by the client, so that a repeated spawn starts nothing
	// twice; attach needs it.
	ID      string            `json:"id,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	TTY     bool              `json:"tty,omitempty"`
	// GraceMS is how long the process lives on without a connection. Default 60000,
	// at most 600000.
	GraceMS int64 `json:"graceMs,omitempty"`

	// Of attach: the offsets wanted next. Of started: those at which the outputs go
	// on, later than wanted when bytes are gone, and how much input was taken.
	Stdin  int64 `json:"stdin,omitempty"`
	Stdout int64 `json:"stdout,omitempty"`
	Stderr int64 `json:"stderr,omitempty"`
	// Of started.
	PID    int   `json:"pid,omitempty"`
	Window int64 `json:"window,omitempty"`
	// Gone counts the bytes of output that were wanted and are not kept any more.
	Gone int64 `json:"gone,omitempty"`

	// Of ack.
	Channel byte  `json:"channel,omitempty"`
	Seq     int64 `json:"seq,omitempty"`

	// Signal is SIGTERM and the like: of kill, and of exit when one ended the process.
	// Code is of exit otherwise.
	Signal *string `json:"signal,omitempty"`
	Code   *int    `json:"code,omitempty"`

	Error *NestedError `json:"error,omitempty"`
}
