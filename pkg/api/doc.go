// Package api holds the wire types of Deskfork's HTTP API and the one closed
// list of error codes that crosses it. The server is internal/server, the Go
// client pkg/api/client; both speak in these types and nothing else.
//
// Coordinates are pixels of the guest's screen, origin top left. Times are
// RFC 3339 in UTC. Durations are Go duration strings ("1.5s") in queries and
// milliseconds in JSON members that end in _ms.
package api
