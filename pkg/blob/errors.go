package blob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Sentinels. Those of missing and taken keys are also fs.ErrNotExist and
// fs.ErrExist, for callers that do not know this package.
var (
	ErrNotFound = fmt.Errorf("blob is not there: %w", fs.ErrNotExist)
	ErrExists   = fmt.Errorf("blob is there already: %w", fs.ErrExist)
	ErrRange    = errors.New("range is not inside the blob")
	ErrKey      = errors.New("key is not allowed")
	// ErrFull: the store takes no more; an operator has to make room.
	ErrFull = errors.New("store is full")
)

// Error is a failed call of a store.
type Error struct {
	Op    string // put, get, stat, list, delete
	Key   string // or prefix
	Retry bool   // the same call may succeed later
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("%s blob %s: %v", e.Op, e.Key, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether the call that gave err may succeed when it is repeated
// as it was. A cancelled context never is.
func Retryable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var e *Error
	return errors.As(err, &e) && e.Retry
}
