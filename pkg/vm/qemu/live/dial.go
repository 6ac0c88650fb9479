package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// ErrEnded says that QEMU has ended before it answered.
var ErrEnded = errors.New("QEMU has ended")

// Dial waits until a QEMU that has been started answers, as long as it is alive.
func Dial(ctx context.Context, socket string, alive func() bool) (*qmp.Client, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		mon, err := qmp.Dial(ctx, socket, qmp.Config{})
		if err == nil {
			return mon, nil
		}
		if !alive() {
			return nil, ErrEnded
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for QEMU to answer: %w (%w)", ctx.Err(), err)
		}
	}
}
