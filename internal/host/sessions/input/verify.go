package input

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

const prefix = "sha256:"

// verified reads what a resource says, and nothing else: it never ends well before
// size and hash were found right.
type verified struct {
	from  io.Reader
	is    session.Resource
	sum   hash.Hash
	limit int64
	n     int64 // bytes read
	fault error // why the last Read failed
}

func newVerified(from io.Reader, r session.Resource, limit int64) *verified {
	return &verified{from: from, is: r, sum: sha256.New(), limit: limit}
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	if v.fault != nil {
		return 0, v.fault
	}
	n, err := v.from.Read(p)
	v.n += int64(n)
	_, _ = v.sum.Write(p[:n]) // a hash never fails
	switch {
	case v.n > v.limit:
		v.fault = api.Errorf(api.CodeTooLarge, "the inputs of a session are more than %d bytes", session.MaxInputBytes)
	case v.is.Size != nil && v.n > *v.is.Size:
		v.fault = wrong("it has more than %d bytes", *v.is.Size)
	case errors.Is(err, io.EOF):
		v.fault = v.end()
	case err != nil:
		v.fault = err
	}
	if v.fault != nil {
		return 0, v.fault
	}
	return n, err
}

func (v *verified) end() error {
	if v.is.Size != nil && v.n != *v.is.Size {
		return wrong("it has %d bytes, not %d", v.n, *v.is.Size)
	}
	if got := prefix + hex.EncodeToString(v.sum.Sum(nil)); v.is.ContentHash != "" && got != v.is.ContentHash {
		return wrong("it is %s, not %s", got, v.is.ContentHash)
	}
	return nil
}

func wrong(format string, args ...any) error {
	e := api.Errorf(api.CodePrecondition, "it is not what was asked for: "+format, args...)
	e.Hint = "compare it with its source; nothing of the run was begun"
	return e
}
