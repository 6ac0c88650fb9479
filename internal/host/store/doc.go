// Package store keeps what the host must not forget in one SQLite file:
// desktops with their journal, tokens by hash, and idempotency keys.
//
// SQLite has one writer; the pool holds a single connection, so that calls
// queue in Go (and honour their context) rather than fail with a busy error.
package store
