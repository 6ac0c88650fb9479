package api

// HeaderRequestID is answered with every response and written to the log.
const HeaderRequestID = "Deskfork-Request-Id"

// HeaderProblem is a trailer: the Error, as JSON without its log, of an answer
// that had begun when it failed. A client that asks for it by "TE: trailers" must
// look for it; one that does not finds its connection cut instead.
const HeaderProblem = "Deskfork-Problem"

// SubprotocolTCP is the WebSocket subprotocol of …/tcp/{port}: binary messages
// are bytes; a TCPMessage as text is the rest.
const SubprotocolTCP = "deskfork-tcp-v1"

// SubprotocolToken is the prefix of an offered subprotocol that carries the
// bearer token for clients that cannot set headers on a WebSocket (browsers).
// The server never selects it, so offer the wanted subprotocol beside it.
const SubprotocolToken = "deskfork-token."

// TCPMessage is a text message on a port's WebSocket: "eof" (the sender will
// send no more bytes) or, from the server, "error" (last message).
type TCPMessage struct {
	Kind  string `json:"kind"`
	Error *Error `json:"error,omitempty"`
}

// ErrorMIME is the content type of an Error.
const ErrorMIME = "application/problem+json"

// SnapshotMIME is the content type of an exported snapshot.
const SnapshotMIME = "application/zstd"

// GetStatus is the HTTP status the error is sent with.
func (e *Error) GetStatus() int {
	if e.Status == 0 {
		return e.Code.HTTPStatus()
	}
	return e.Status
}

// ContentType is the content type the error is sent with: ErrorMIME, whatever
// kind of JSON was negotiated.
func (*Error) ContentType(string) string { return ErrorMIME }

// Extracted says what an archive became.
type Extracted struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
}
