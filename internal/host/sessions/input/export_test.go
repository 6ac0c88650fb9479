package input

import (
	"io"

	"github.com/deskfork/deskfork/pkg/session"
)

// Limit reads what may have so many bytes.
func Limit(r io.Reader, n int64) io.Reader { return newVerified(r, session.Resource{}, n) }
