// Package billing names what use of desktops is: kinds, rows of a ledger, money
// without floats, and what a ledger owes its callers. It depends on the standard
// library alone.
//
// A row says how much of one kind one incarnation used in one window. Rows never
// change once they are written, and there is one at most for each (incarnation,
// kind, start of the window): whoever writes a row twice has written it once.
package billing
