//go:build !linux || !amd64

package graft

import "context"

// Map is not supported here.
func Map(context.Context, int, uint64, int64, int) error { return ErrUnsupported }
