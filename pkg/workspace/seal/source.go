package seal

import (
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// source reads an encrypted object in order with one request, and makes another
// one where the reader jumps. It is for one goroutine.
type source struct {
	ctx     context.Context //nolint:containedctx // lives as long as a stream
	objects workspace.Objects
	key     string
	size    int64
	// windows asks for parts, because the reader will jump: the header and the
	// first piece, the last piece, and then the plain bytes of limit.
	windows bool
	limit   int64

	body io.ReadCloser
	at   int64
	head []byte // of windows
	err  error  // of the store below
}

// window is a piece and a header of any usual number of recipients.
const window = 80 << 10

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.size {
		return 0, io.EOF
	}
	if s.windows && off+int64(len(p)) <= min(window, s.size) {
		if s.head == nil {
			head := make([]byte, min(window, s.size))
			if _, err := s.read(head, 0, int64(len(head))); err != nil {
				return 0, err
			}
			s.head = head
		}
		return copy(p, s.head[off:]), nil
	}
	want := s.size - off
	if s.windows {
		// Each piece of 64 KiB is 16 bytes longer than what is in it.
		want = min(want, max(int64(len(p)), s.limit+s.limit/2048+2*window))
	}
	return s.read(p, off, want)
}

func (s *source) read(p []byte, off, want int64) (int, error) {
	if s.body == nil || s.at != off {
		if err := s.Close(); err != nil {
			return 0, err
		}
		if s.body, s.err = s.objects.Get(s.ctx, s.key, off, want); s.err != nil {
			s.body = nil
			return 0, s.err
		}
		s.at = off
	}
	n, err := io.ReadFull(s.body, p[:min(int64(len(p)), s.size-off)])
	s.at += int64(n)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = io.ErrUnexpectedEOF
	case err != nil:
		s.err = err
	case n < len(p):
		err = io.EOF
	}
	return n, err
}

// Close ends the request that is open.
func (s *source) Close() error {
	if s.body == nil {
		return nil
	}
	err := s.body.Close()
	s.body = nil
	return err
}

// ErrKey says that an object was encrypted for somebody else: it may be whole.
var ErrKey = errors.New("none of the keys fits")

// fault tells a store in trouble from an object that is not what was written.
func (s *source) fault(err error) error {
	var other *age.NoIdentityMatchError
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, workspace.ErrInvalid):
		return err
	case errors.As(err, &other):
		return fmt.Errorf("decrypt %s: %w: %w", s.key, ErrKey, err)
	}
	return &workspace.DamageError{Key: s.key, What: "decrypt: " + err.Error(), Err: workspace.ErrCorrupt}
}
