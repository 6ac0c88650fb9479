package vmnet

import (
	"context"
	"errors"
	"io"
	"sync"
)

// chunk is the size of a relay's buffer, in bytes. A flow holds two.
const chunk = 32 << 10

// end is one side of a relay.
type end interface {
	io.ReadWriteCloser
	// CloseWrite tells the other side that no more will come.
	CloseWrite() error
	// abort resets the connection.
	abort()
}

// relay carries bytes both ways until both directions have ended, and closes
// both ends. The end of one direction is passed on and leaves the other open; a
// failure resets both, as does the end of ctx.
func relay(ctx context.Context, a, b end) {
	reset := sync.OnceFunc(func() {
		a.abort()
		b.abort()
	})
	stop := context.AfterFunc(ctx, reset)
	defer stop()
	carry := func(to, from end) {
		if err := pour(to, from); err != nil {
			reset()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { carry(a, b) })
	carry(b, a)
	wg.Wait()
	_ = a.Close()
	_ = b.Close()
}

// pour copies until from ends, then ends to.
func pour(to, from end) error {
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return to.CloseWrite()
		}
		if err != nil {
			return err
		}
	}
}
