package exec

import (
	"io"
	"os"
	"sync"
	"time"
)

// stdin is the writing side of a program's standard input. One client feeds it
// at a time; a later one takes it over, since the former may be a connection
// that broke unnoticed.
type stdin struct {
	feed sync.Mutex // held by who feeds it

	mu   sync.Mutex
	f    *os.File // nil: none, or closed
	tty  bool
	in   int64         // bytes handed over
	quit chan struct{} // closed to make the present feeder let go
}

func (s *stdin) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in
}

// take makes the caller the one who feeds, and interrupts who did before. The
// caller calls release at the end. It reports whether there is still an input
// to feed.
func (s *stdin) take() (quit <-chan struct{}, open bool) {
	s.mu.Lock()
	if s.f == nil {
		s.mu.Unlock()
		return nil, false
	}
	s.interruptLocked()
	mine := make(chan struct{})
	s.quit = mine
	s.mu.Unlock()

	s.feed.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil && s.quit == mine {
		_ = s.f.SetWriteDeadline(time.Time{})
	}
	return mine, true
}

func (s *stdin) release() { s.feed.Unlock() }

// interrupt makes the holder of quit let go, if it is still the feeder.
func (s *stdin) interrupt(quit <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit == quit {
		s.interruptLocked()
	}
}

func (s *stdin) interruptLocked() {
	if s.quit == nil {
		return
	}
	close(s.quit)
	s.quit = nil
	if s.f != nil {
		_ = s.f.SetWriteDeadline(time.Unix(1, 0))
	}
}

// Write hands bytes to the program; io.ErrClosedPipe after the end.
func (s *stdin) Write(p []byte) (int, error) {
	s.mu.Lock()
	f := s.f
	s.mu.Unlock()
	if f == nil {
		return 0, io.ErrClosedPipe
	}
	n, err := f.Write(p)
	s.mu.Lock()
	s.in += int64(n)
	s.mu.Unlock()
	return n, err
}

// end says that no more bytes come: the program reads an end of file. On a
// terminal that is the character for it.
func (s *stdin) end() {
	s.mu.Lock()
	tty, f := s.tty, s.f
	s.mu.Unlock()
	if tty && f != nil {
		const endOfTransmission = 4
		_, _ = f.Write([]byte{endOfTransmission}) // a program that is gone needs none
		return
	}
	s.close()
}

func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f == nil {
		return
	}
	if !s.tty { // a terminal is closed by who reads it
		s.f.Close()
	}
	s.f = nil
}
