package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// keyLimit is how long a runner may take to draw its key.
const keyLimit = 2 * time.Minute

// Start is a runner that is being started.
type Start struct {
	// Sealed and Key become its descriptors SealedFD and KeyFD.
	Sealed, Key *os.File

	to, from *os.File
}

// Open makes the pipes to a runner.
func Open() (*Start, error) {
	s := &Start{}
	var err1, err2 error
	s.Sealed, s.to, err1 = os.Pipe()
	s.from, s.Key, err2 = os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		s.Discard()
		return nil, fmt.Errorf("open pipes of a sealed start: %w", err)
	}
	return s, nil
}

// Command is the command line of the runner of a program.
func Command(argv []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find guestd: %w", err)
	}
	return append([]string{self, Arg}, argv...), nil
}

// Discard closes all pipes: the runner ends.
func (s *Start) Discard() {
	for _, f := range []*os.File{s.Sealed, s.Key, s.to, s.from} {
		f.Close() // nil is harmless
	}
}

// Await reads the key of the runner, once its process is there.
func (s *Start) Await() (*Seal, error) {
	s.Sealed.Close()
	s.Key.Close()
	_ = s.from.SetReadDeadline(time.Now().Add(keyLimit)) // where there are none the end of the process ends the wait
	key, err := io.ReadAll(io.LimitReader(s.from, 1<<10))
	if err == nil && len(key) == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		s.Discard()
		return nil, fmt.Errorf("read key of a sealed start: %w", err)
	}
	s.from.Close()
	return &Seal{Key: key, to: s.to}, nil
}

// Seal is the way to a runner that waits. A nil one is nobody's. Safe for concurrent
// use.
type Seal struct {
	// Key is the runner's public one.
	Key []byte

	mu   sync.Mutex
	to   *os.File // guarded by mu; nil once the secrets went, or the runner
	sent bool     // guarded by mu
}

// Unseal hands the runner what was encrypted for it. Repeated it does nothing.
func (s *Seal) Unseal(sealed []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sent:
		return nil
	case s.to == nil:
		return &guest.Error{Code: guest.CodeGone, Message: "the program has ended before it began"}
	}
	_, err := s.to.Write(sealed)
	err = errors.Join(err, s.to.Close())
	s.to, s.sent = nil, true
	if err != nil {
		return fmt.Errorf("hand secrets over: %w", err)
	}
	return nil
}

// Close ends the wait for secrets.
func (s *Seal) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to.Close() // nil is harmless
	s.to = nil
}
