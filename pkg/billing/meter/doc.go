// Package meter turns what happened to incarnations into rows of a ledger.
//
// A Fact says that something happened, and when, by the boot-time clock of the
// host. State folds the facts of one incarnation: it holds running totals, so
// that nothing is lost between facts, and gives out rows when a window closes or
// the incarnation ends. Which rows come out depends on the facts alone.
//
// Meter keeps the states of a host. It takes facts without waiting for anything
// and writes states and rows to the ledger in one transaction beside, so that the
// ledger holds, at every instant, what some prefix of the facts gives. After a
// crash the states are read back; whoever counts then says of each open
// incarnation whether it was found alive (Adopt) or not (Lost). One that is lost
// has used what it had used at its last proof of life, and no more.
package meter
