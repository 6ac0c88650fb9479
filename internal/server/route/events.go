package route

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/stream"
)

// Events sends server-sent events with signs of life until send ends. An error
// after the beginning is an event of its own, and the end.
func Events(w http.ResponseWriter, r *http.Request, beat time.Duration, send func(context.Context, *stream.Events) error) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := stream.NewEvents(w)
	if err := out.Begin(); err != nil {
		return err
	}
	stop := out.Beat(ctx, beat, cancel)
	err := send(ctx, out)
	stop()
	err = gate.Why(r.Context(), err)
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	e := fault.From(err)
	gate.Note(r, e)
	_ = out.Send(0, "error", e) // a client that is gone reads nothing
	return nil
}
