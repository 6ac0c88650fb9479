package host_test

import "github.com/deskfork/deskfork/internal/host/fault"

// faulted is an error as a door tells it.
func faulted(err error) error {
	if e := fault.From(err); e != nil {
		return e
	}
	return nil
}
