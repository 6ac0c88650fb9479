// Package arch holds the architecture as tests: which package may import
// which, where a third-party library lives, how large things may grow, and
// that what is exported is documented. Its rules are the package map of
// docs/ARCHITECTURE.md.
package arch
