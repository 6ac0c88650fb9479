// Package sessiontest holds what tests of sessions share: stores in memory, fakes
// of every port, and the suite that each implementation of the stores passes.
package sessiontest
