package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
)

// maxRest is the longest pause before a call is sent again. A server that asks
// for more is taken at its word: the call fails.
const maxRest = 30 * time.Second

var errRest = errors.New("not worth the wait")

// rest waits before an attempt is repeated: as long as the server asks for and
// a little more, so that those whom it sent away do not all come back at once.
// The error says that there is to be no other attempt.
func (s *Server) rest(ctx context.Context, attempt int, after time.Duration) error {
	if attempt >= s.Retries {
		return errRest
	}
	pause := s.Pause << min(attempt, 6)
	if after > 0 && pause > 0 {
		pause = after + rand.N(pause)
	}
	if pause = max(pause, after); pause > maxRest {
		return errRest
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < pause {
		return errRest
	}
	return sleep.For(ctx, pause)
}
