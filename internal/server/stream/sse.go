package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Events writes server-sent events.
type Events struct {
	mu  sync.Mutex
	out *Writer
}

// NewEvents prepares a stream of events.
func NewEvents(w http.ResponseWriter) *Events {
	return &Events{out: NewWriter(w, true, func(h http.Header) int {
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
		return http.StatusOK
	})}
}

// Begin sends the headers, so that a client knows it is heard.
func (e *Events) Begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Begin()
}

// Send writes one event; id 0 is none.
func (e *Events) Send(id uint64, kind string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	var b strings.Builder
	if id > 0 {
		b.WriteString("id: " + strconv.FormatUint(id, 10) + "\n")
	}
	b.WriteString("event: " + kind + "\ndata: ")
	b.Write(body)
	b.WriteString("\n\n")
	return e.write(b.String())
}

func (e *Events) write(s string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.out.Write([]byte(s))
	return err
}

// Beat writes a comment every so often until the returned function is called,
// which waits for its end. A client that is gone makes it call lost.
func (e *Events) Beat(ctx context.Context, every time.Duration, lost func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if e.write(": still here\n\n") != nil {
					lost()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		wait.Wait()
	}
}
