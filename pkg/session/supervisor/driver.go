package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Driver runs supervised harnesses.
type Driver struct {
	Transport session.SupervisorTransport
	// StopGrace bounds how long a supervisor that was told to stop is waited for,
	// and the close of its transport [5 s].
	StopGrace time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

var _ session.HarnessDriver = (*Driver)(nil)

// Lanes implements session.HarnessDriver.
func (*Driver) Lanes(context.Context, session.Scope) ([]session.Lane, error) {
	return []session.Lane{session.Supervised}, nil
}

// Run implements session.HarnessDriver. When ctx ends the supervisor is told to
// stop, its process is ended within twice the grace, and the run was aborted.
func (d *Driver) Run(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
	if r.Driver.Lane != session.Supervised || r.Driver.Protocol != session.SupervisorProtocol {
		return "", fmt.Errorf("run harness: lane %q with protocol %q: this driver does %s with %s",
			r.Driver.Lane, r.Driver.Protocol, session.Supervised, session.SupervisorProtocol)
	}
	conn, err := d.Transport.Open(ctx, r.Tenure.Scope, r.Lease, r.Driver.Process)
	if err != nil {
		if ctx.Err() != nil {
			return session.EndingAborted, nil
		}
		return "", fmt.Errorf("open supervisor: %w", err)
	}
	grace := d.StopGrace
	if grace <= 0 {
		grace = 5 * time.Second
	}
	l := newLink(conn, grace)
	defer l.end()
	h := &harness{run: r, link: l, requests: make(chan *request), committed: make(chan verdict, 1)}
	err = h.drive(ctx)
	switch {
	case err == nil:
		if err := l.close(); err != nil && d.Logger != nil {
			d.Logger.Warn("close supervisor", "error", err)
		}
		return session.EndingCompleted, nil
	case ctx.Err() != nil:
		l.stop(StopAborted) //nolint:contextcheck // ctx has ended; it has a deadline of its own
		_ = l.close()       // the machine ends next
		return session.EndingAborted, nil
	}
	l.stop(StopFailed) //nolint:contextcheck // as above
	if cerr := l.close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("close supervisor: %w", cerr))
	}
	return "", err
}

// link is the open transport: a reader and a writer that can be waited for.
type link struct {
	conn   io.ReadWriteCloser
	grace  time.Duration
	events chan Event
	// broken is closed when nothing more will be read; why says the reason.
	broken chan struct{}
	why    error
	gone   chan struct{} // nobody reads events any more
	// writing holds one token while a command is written.
	writing chan struct{}
	closed  chan error // the result of Close, once it was called
	ended   bool
}

func newLink(conn io.ReadWriteCloser, grace time.Duration) *link {
	l := &link{conn: conn, grace: grace, events: make(chan Event), broken: make(chan struct{}), gone: make(chan struct{}), writing: make(chan struct{}, 1)}
	go l.read()
	return l
}

// read ends with the stream; close ends the stream.
func (l *link) read() {
	defer close(l.broken)
	for dec := NewDecoder[Event](l.conn); ; {
		e, err := dec.Next()
		if err != nil {
			l.why = err
			return
		}
		select {
		case l.events <- e:
		case <-l.gone:
			l.why = io.EOF
			// Read on, so that a guest that still writes can come to its stop.
			_, _ = io.Copy(io.Discard, l.conn)
			return
		}
	}
}

// send writes a command, for at most limit: a guest that does not read must not
// hold the host.
func (l *link) send(ctx context.Context, c Command, limit time.Duration) error {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return fmt.Errorf("send %s: the supervisor does not read", c.Type)
	}
	done := make(chan error, 1)
	go func() { // ends with the stream at the latest
		defer func() { <-l.writing }()
		done <- Encode(l.conn, c)
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("send %s: %w", c.Type, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return fmt.Errorf("send %s: the supervisor does not read", c.Type)
	}
}

// stop tells the supervisor to stop and waits for the end of its output, for at
// most the grace.
func (l *link) stop(reason string) {
	l.leave()
	ctx, cancel := context.WithTimeout(context.Background(), l.grace)
	defer cancel()
	if l.send(ctx, Command{Type: Stop, Reason: reason}, l.grace) != nil {
		return
	}
	select {
	case <-l.broken:
	case <-ctx.Done():
	}
}

// leave says that nobody reads events any more.
func (l *link) leave() {
	if !l.ended {
		l.ended = true
		close(l.gone)
	}
}

// close ends the process; it is waited for during the grace.
func (l *link) close() error {
	l.leave()
	if l.closed == nil {
		l.closed = make(chan error, 1)
		go func() { l.closed <- l.conn.Close() }()
	}
	t := time.NewTimer(l.grace)
	defer t.Stop()
	select {
	case err := <-l.closed:
		return err
	case <-t.C:
		return errors.New("the transport does not close")
	}
}

// end waits for the reader, after close.
func (l *link) end() {
	t := time.NewTimer(l.grace)
	defer t.Stop()
	select {
	case <-l.broken:
	case <-t.C:
	}
}
