// Package billingtest is what every ledger of use must pass, and a ledger in
// memory that does.
package billingtest
