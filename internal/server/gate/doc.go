// Package gate is what every request passes before its handler: a request id and
// the access log, the check of Host and Origin, the bearer token, and the limit
// of how many are served at once.
package gate
