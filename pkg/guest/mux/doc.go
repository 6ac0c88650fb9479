// Package mux carries many calls and byte streams over one WebSocket between
// the host (the caller) and guestd (the server).
//
// Text messages are JSON envelopes: a request {id, op, params, timeout_ns,
// streams}, an answer {id, result | error, end}, a cancellation {id, cancel}
// and an event {event, params}. Requests, cancellations and stream openings
// come from the caller only.
//
// Binary messages carry stream bytes: an unsigned varint stream id, one flag
// byte and the payload. A stream is opened by naming its id in a request; it
// runs both ways, and each way can be closed on its own. Every receiver grants
// the sender a window of Window bytes and renews it as the bytes are read, so
// that a stream which nobody reads stops its own sender and nothing else.
//
// The loop that reads the connection never waits for anything but the
// connection: payloads go into windows that are already accounted for, and
// requests into goroutines of a bounded number. Whoever breaks these rules
// (unknown stream, window overrun, malformed envelope, oversized message) has
// the connection closed with ErrProtocol.
//
// Lock order: Stream.mu before Session.mu; neither is held while writing to
// the connection.
package mux
