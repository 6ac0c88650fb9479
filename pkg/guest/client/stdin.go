package client

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/deskfork/deskfork/internal/x/replay"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Stdin writes to a program's standard input. Without a hold on it, it refuses
// what is written.
type Stdin struct {
	st   *mux.Stream // nil: no hold
	base int64       // offset of the first byte written here
	sent atomic.Int64
}

// Write implements io.Writer. It waits while the program is slow to read.
func (s *Stdin) Write(p []byte) (int, error) {
	if s.st == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := s.st.Write(p)
	s.sent.Add(int64(n))
	return n, err
}

// Close ends the program's standard input.
func (s *Stdin) Close() error {
	if s.st == nil {
		return nil
	}
	return s.st.CloseWrite()
}

// Taken is the offset below which all input is certainly the guest's: it need not
// be sent again when the link breaks. It lags by up to half a window.
func (s *Stdin) Taken() int64 {
	if s.st == nil {
		return 0
	}
	sent := s.sent.Load() // first: what is sent meanwhile counts as unread
	return max(s.base, s.base+sent-s.st.Unread())
}

// NotifyTaken has fn called when Taken may have grown, and when the program wants no
// more, which an empty Write then says; fn must not wait.
func (s *Stdin) NotifyTaken(fn func()) {
	if s.st != nil {
		s.st.NotifyRead(fn)
	}
}

// input is the standard input of a run: what was read of it and may have to be
// sent again, and what is still to be read.
type input struct {
	from   io.Reader // nil at its end
	again  replay.Buffer
	failed error // of from
}

// feed sends the input over one link, whose guest has the bytes below have, and
// ends it. What the program does not want is no error.
func (i *input) feed(to *Stdin) error {
	first, err := i.again.Join(to.base)
	if err != nil {
		return err
	}
	if err := i.send(to, first); err != nil {
		return unwanted(err)
	}
	buf := make([]byte, 32<<10)
	for i.from != nil {
		n, err := i.from.Read(buf)
		if err != nil {
			i.from = nil
			if !errors.Is(err, io.EOF) {
				i.failed = err
			}
		}
		i.again.Append(buf[:n])
		if err := i.send(to, buf[:n]); err != nil {
			return unwanted(err)
		}
	}
	if i.failed != nil {
		return i.failed
	}
	return unwanted(to.Close())
}

func (i *input) send(to *Stdin, p []byte) error {
	if _, err := to.Write(p); err != nil {
		return err
	}
	i.again.Confirm(to.Taken())
	return nil
}

// unwanted is nil for what a writer gets when the program reads no more.
func unwanted(err error) error {
	if errors.Is(err, mux.ErrStopped) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
