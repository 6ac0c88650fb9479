package link

import (
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
)

// Redial paces attempts to bring a broken stream back.
type Redial struct {
	until time.Time
	pause time.Duration
}

// NewRedial allows attempts for as long as patience, with a first pause that
// doubles up to 2 s.
func NewRedial(first, patience time.Duration) *Redial {
	return &Redial{until: time.Now().Add(patience), pause: max(first, time.Millisecond)}
}

var errPatience = errors.New("patience is over")

// Wait waits for the next attempt, or says that there is none.
func (r *Redial) Wait(ctx context.Context) error {
	if !time.Now().Before(r.until) {
		return errPatience
	}
	err := sleep.For(ctx, r.pause)
	r.pause = min(2*r.pause, 2*time.Second)
	return err
}
