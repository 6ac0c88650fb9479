package duplex

import (
	"context"
	"fmt"
	"sync"

	"github.com/deskfork/deskfork/internal/server/stream"
)

// credit is what may still be sent of one output.
type credit struct {
	more chan struct{} // of one: there may be more

	mu          sync.Mutex
	sent, acked int64
}

func newCredit(from int64) *credit {
	return &credit{more: make(chan struct{}, 1), sent: from, acked: from}
}

// room waits until something may be sent, and says how much.
func (c *credit) room(ctx context.Context) (int64, error) {
	for {
		c.mu.Lock()
		n := c.acked + Window - c.sent
		c.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// spend notes that n bytes go out, and gives the offset of the first.
func (c *credit) spend(n int) (seq int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq = c.sent
	c.sent += int64(n)
	return seq
}

// ack notes that the client has consumed all bytes below seq.
func (c *credit) ack(seq int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seq > c.sent {
		return fmt.Errorf("%w: offset %d is acknowledged, and %d was sent", stream.ErrProtocol, seq, c.sent)
	}
	c.acked = max(c.acked, seq)
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

// input is what the client has sent and the program has not yet got.
type input struct {
	wake chan struct{} // of one: there is something to do

	mu     sync.Mutex
	next   int64 // offset that comes next from the client
	told   int64 // all below it was acknowledged
	queue  [][]byte
	closed bool
}

func newInput(from int64) *input {
	return &input{wake: make(chan struct{}, 1), next: from, told: from}
}

// accept takes a frame. What came before, on a connection that was lost, is dropped.
func (i *input) accept(f frame) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	end := f.seq + int64(len(f.data))
	switch {
	case f.seq > i.next:
		return fmt.Errorf("%w: standard input goes on at %d, not at %d", stream.ErrProtocol, i.next, f.seq)
	case end <= i.next:
		return nil
	case i.closed:
		return fmt.Errorf("%w: standard input after its end", stream.ErrProtocol)
	case end > i.told+Window:
		return fmt.Errorf("%w: %d bytes of standard input beyond the window of %d", stream.ErrProtocol, end-i.told-Window, Window)
	}
	i.queue = append(i.queue, f.data[i.next-f.seq:])
	i.next = end
	i.signal()
	return nil
}

func (i *input) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.signal()
}

func (i *input) signal() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}

// take waits for bytes; end says that there are no more. ok is false when ctx ends.
func (i *input) take(ctx context.Context) (p []byte, end, ok bool) {
	for {
		i.mu.Lock()
		if len(i.queue) > 0 {
			p, i.queue = i.queue[0], i.queue[1:]
			i.mu.Unlock()
			return p, false, true
		}
		end = i.closed
		i.mu.Unlock()
		if end {
			return nil, true, true
		}
		select {
		case <-i.wake:
		case <-ctx.Done():
			return nil, false, false
		}
	}
}

// tell notes that all below seq is about to be acknowledged; grown is false when it
// was already.
func (i *input) tell(seq int64) (grown bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	grown = seq > i.told
	i.told = max(i.told, seq)
	return grown
}

// came is the offset up to which input has come.
func (i *input) came() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.next
}
