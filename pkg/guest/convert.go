package guest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrorFrom gives err the code under which it crosses the wire. An *Error
// anywhere in err's tree keeps its code; the message is that of the whole err.
func ErrorFrom(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{Code: codeOf(err), Message: err.Error()}
}

func codeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	for _, row := range codes() {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return CodeInternal
}

type codeRow struct {
	err  error
	code Code
}

// codes is ordered: the first match wins.
func codes() []codeRow {
	return []codeRow{
		{context.DeadlineExceeded, CodeDeadline},
		{os.ErrDeadlineExceeded, CodeDeadline},
		{context.Canceled, CodeCancelled},
		{syscall.ENOSPC, CodeNoSpace},
		{syscall.EDQUOT, CodeNoSpace},
		{syscall.EFBIG, CodeNoSpace},
		{syscall.ENOTDIR, CodeNotDir},
		{syscall.EISDIR, CodeIsDir},
		{syscall.ENOTEMPTY, CodeNotEmpty},
		{syscall.ECONNREFUSED, CodeRefused},
		{syscall.EBUSY, CodeBusy},
		{syscall.EINVAL, CodeInvalid},
		{syscall.ENAMETOOLONG, CodeInvalid},
		{syscall.ELOOP, CodeInvalid},
		{syscall.ENOEXEC, CodeInvalid},
		{syscall.E2BIG, CodeInvalid},
		{syscall.EROFS, CodePermission},
		{fs.ErrNotExist, CodeNotFound},
		{fs.ErrExist, CodeExists},
		{fs.ErrPermission, CodePermission},
		{errors.ErrUnsupported, CodeUnsupported},
		{fs.ErrInvalid, CodeInvalid},
		{fs.ErrClosed, CodeGone},
	}
}
