package qmp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// send writes one line. A line that went out in part would spoil the stream,
// so then the connection ends.
func (c *Client) send(ctx context.Context, line []byte, f *os.File) error {
	select {
	case <-c.write:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return c.Err()
	}
	defer func() { c.write <- struct{}{} }()
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := c.sendLocked(line, f)
	if !stop() {
		<-cut // or it would meet the next command
		_ = c.conn.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		return nil
	}
	if n > 0 {
		c.conn.Close()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *Client) sendLocked(line []byte, f *os.File) (int, error) {
	if f == nil {
		return c.conn.Write(line)
	}
	uc, ok := c.conn.(*net.UnixConn)
	if !ok || !c.oob {
		return 0, errors.New("pass a file descriptor: needs a unix socket and a QEMU with the oob capability")
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	n, sendErr := 0, error(nil)
	err = raw.Control(func(fd uintptr) {
		n, _, sendErr = uc.WriteMsgUnix(line, unix.UnixRights(int(fd)), nil)
	})
	if err = errors.Join(err, sendErr); err != nil || n == len(line) {
		return n, err
	}
	rest, err := c.conn.Write(line[n:])
	return n + rest, err
}

// read takes messages until the connection ends.
func (c *Client) read(r *bufio.Reader) {
	defer close(c.done)
	var err error
	for err == nil {
		var m *message
		if m, err = readMessage(r, c.cfg.MaxLine); err == nil {
			err = c.dispatch(m)
		}
	}
	c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = fmt.Errorf("%w: %w", ErrClosed, err)
	for _, s := range c.subs {
		s.end()
	}
	c.subs = nil
}

func (c *Client) dispatch(m *message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Event != "":
		e, err := m.event()
		if err != nil {
			return err
		}
		for _, s := range c.subs {
			s.put(e)
		}
	case m.ID != nil:
		if ch, ok := c.pending[*m.ID]; ok { // else its caller gave up
			delete(c.pending, *m.ID)
			ch <- m
		}
	case m.Error != nil:
		return fmt.Errorf("qmp refused a message as a whole: %s: %s", m.Error.Class, m.Error.Desc)
	}
	return nil
}
