package exec

import (
	"io"
	"os"
	"sync"
	"time"
)

// stdin is the writing side of a program's standard input. One client feeds it
// at a time; a later one takes it over, since the former may be a connection
// that broke unnoticed. What was taken from a client reaches the program, also
// when that client is interrupted: the next one goes on behind it.
type stdin struct {
	mu     sync.Mutex
	f      *os.File // nil: none, or closed
	tty    bool
	in     int64 // bytes taken from clients
	feeder *feeder

	rest []byte // taken and not yet written; the present feeder's
}

// feeder is one client's turn.
type feeder struct {
	stop func()        // wakes it while it waits for its client; may be called twice
	done chan struct{} // closed when it feeds no more
	once sync.Once
}

// finish ends a turn. It may be called again.
func (f *feeder) finish() { f.once.Do(func() { close(f.done) }) }

func (s *stdin) count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in
}

// take makes the caller the one who feeds, interrupts who did before and waits
// for the end of that turn. The caller ends its own with finish; it should when
// stop is called. It reports whether there is still an input to feed.
func (s *stdin) take(stop func()) (mine *feeder, open bool) {
	s.mu.Lock()
	if s.f == nil {
		s.mu.Unlock()
		return nil, false
	}
	mine = &feeder{stop: stop, done: make(chan struct{})}
	former := s.feeder
	s.feeder = mine
	if former != nil {
		_ = s.f.SetWriteDeadline(past)
	}
	s.mu.Unlock()
	if former != nil {
		former.stop()
		<-former.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil && s.feeder == mine {
		_ = s.f.SetWriteDeadline(time.Time{})
	}
	return mine, true
}

var past = time.Unix(1, 0)

// interrupt makes f let go, if it is its turn.
func (s *stdin) interrupt(f *feeder) {
	s.mu.Lock()
	if s.feeder == f && s.f != nil {
		_ = s.f.SetWriteDeadline(past)
	}
	s.mu.Unlock()
	f.stop()
}

// Write takes bytes and hands them to the program, with what an earlier turn has
// left; io.ErrClosedPipe after the end. It is the present feeder's. After an
// error what was taken stays to be written by the next feeder.
func (s *stdin) Write(p []byte) (int, error) {
	s.mu.Lock()
	f := s.f
	if f == nil {
		s.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	s.in += int64(len(p))
	s.mu.Unlock()
	if len(s.rest) > 0 {
		s.rest = append(s.rest, p...)
		n, err := f.Write(s.rest)
		s.rest = s.rest[n:]
		return len(p), err
	}
	n, err := f.Write(p)
	if n < len(p) {
		s.rest = append([]byte(nil), p[n:]...)
	}
	return len(p), err
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
