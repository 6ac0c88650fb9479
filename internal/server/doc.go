// Package server is the one door: HTTP and WebSocket over the host's use cases.
//
// JSON calls are operations of huma, which validates them and describes them in
// the OpenAPI document. Whatever streams (files, archives, logs, events,
// screenshots, WebSockets) is a plain handler on the same mux, described by hand,
// because huma reads whole bodies into memory. Both are registered through
// routes (routes.go), which puts every handler behind the same gate.
package server
