// Package stream writes answers that take as long as they take: bytes that go out
// as they come, server-sent events, and WebSockets. A client that stops reading
// is cut off after a while; one that reads slowly is not.
package stream
