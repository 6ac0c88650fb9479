package guest

import (
	"context"
	"io/fs"
)

// Code classifies an error of the protocol; it survives the wire.
type Code string

// Codes.
const (
	CodeInvalid     Code = "invalid"
	CodeNotFound    Code = "not_found"
	CodeExists      Code = "exists"
	CodePermission  Code = "permission"
	CodeNoSpace     Code = "no_space"
	CodeNotDir      Code = "not_dir"
	CodeIsDir       Code = "is_dir"
	CodeNotEmpty    Code = "not_empty"
	CodeNoDisplay   Code = "no_display"
	CodeUnsupported Code = "unsupported"
	CodeBusy        Code = "busy"
	CodeDeadline    Code = "deadline"
	CodeCancelled   Code = "cancelled"
	CodeGone        Code = "gone"
	CodeRefused     Code = "refused" // a dialled port answered no
	CodeInternal    Code = "internal"
)

// Error is an error that the other end reported.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Is makes errors.Is(err, &Error{Code: c}) match by code, and the standard
// library's sentinels match the codes that mean the same.
func (e *Error) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
	}
	switch e.Code {
	case CodeDeadline:
		return target == context.DeadlineExceeded
	case CodeCancelled:
		return target == context.Canceled
	case CodeNotFound:
		return target == fs.ErrNotExist
	case CodeExists:
		return target == fs.ErrExist
	case CodePermission:
		return target == fs.ErrPermission
	default:
		return false
	}
}
