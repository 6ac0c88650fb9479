package duplex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/relay"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	// part is how much goes out in one frame, in bytes.
	part = 32 << 10
	// farewell is how long a client that was told the end may take to close.
	farewell = 10 * time.Second
)

// Wanted are the offsets at which a client wants the outputs to go on.
type Wanted struct{ Stdout, Stderr int64 }

// Run joins a WebSocket to a process until the process ends or the client goes away.
// ended says that the client has heard of the end; the process needs no more to be
// remembered then, and waits for its next connection otherwise. Both socket and
// attachment are closed. The error is for the log: the client was told.
func Run(ctx context.Context, ws *stream.Socket, a live.Attachment, execs live.Execs, want Wanted) (ended bool, err error) {
	s := a.Started()
	j := &joint{
		ws: ws, proc: a, execs: execs, id: s.Status.ID,
		out: newCredit(s.OutFrom), err: newCredit(s.ErrFrom), in: newInput(s.Status.In),
	}
	defer func() {
		_ = a.Close() // ends a write to a program that reads nothing
		ws.Close(err)
		j.reader.Wait()
	}()
	err = ws.Text(api.ProcessMessage{
		Type: "started", PID: s.Status.PID, Window: Window, Stdin: s.Status.In, Stdout: s.OutFrom, Stderr: s.ErrFrom,
		Gone: max(0, s.OutFrom-want.Stdout) + max(0, s.ErrFrom-want.Stderr),
	})
	if err != nil {
		return false, err
	}
	return j.run(ctx)
}

// Refuse tells a client why its WebSocket ends, closes it, and gives err back.
func Refuse(ws *stream.Socket, err error) error {
	tell(ws, err)
	ws.Close(err)
	return err
}

func tell(ws *stream.Socket, err error) {
	_ = ws.Text(api.ProcessMessage{Type: "error", Error: relay.Fault(err).AsNested()}) // it may be gone
}

// joint is a WebSocket joined to a process.
type joint struct {
	ws    *stream.Socket
	proc  live.Attachment
	execs live.Execs
	id    guest.ExecID
	out   *credit
	err   *credit
	in    *input
	deaf  atomic.Bool // the program takes no input any more

	reader sync.WaitGroup
}

func (j *joint) run(ctx context.Context) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	// The end of ctx ends reads and writes of the process that wait.
	context.AfterFunc(ctx, func() { _ = j.proc.Close() })
	left := make(chan error, 1)
	j.reader.Go(func() { left <- j.read(ctx, cancel) }) // ends with the socket
	beside.Go(func() { cancelOn(cancel, j.feed(ctx)) })
	if t, ok := j.proc.Stdin().(live.Taker); ok {
		beside.Go(func() { j.tellTaken(ctx, t) })
	}
	var outputs sync.WaitGroup
	outputs.Go(func() { cancelOn(cancel, j.send(ctx, j.proc.Stdout(), api.ChannelStdout, j.out)) })
	outputs.Go(func() { cancelOn(cancel, j.send(ctx, j.proc.Stderr(), api.ChannelStderr, j.err)) })
	outputs.Wait()
	final, err := j.proc.Wait(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return false, nil // the client left; the process waits for it
	}
	if err != nil {
		tell(j.ws, err)
		return false, err
	}
	// A client that has left hears of it when it asks again.
	return j.ws.Text(exit(final)) == nil && j.heard(left), nil
}

// heard says whether the client closes in order, now that it was told the end.
func (j *joint) heard(left <-chan error) bool {
	select {
	case err := <-left:
		return errors.Is(err, io.EOF)
	case <-time.After(farewell):
		return false
	}
}

func cancelOn(cancel context.CancelCauseFunc, err error) {
	if err != nil {
		cancel(err)
	}
}

// exit tells how a process ended.
func exit(st guest.ExecStatus) api.ProcessMessage {
	if st.Signal != "" {
		name := "SIG" + st.Signal
		return api.ProcessMessage{Type: "exit", Signal: &name}
	}
	return api.ProcessMessage{Type: "exit", Code: &st.ExitCode}
}

// send copies one output, as far as the client's credit goes.
func (j *joint) send(ctx context.Context, from io.Reader, channel byte, c *credit) error {
	buf := make([]byte, header+part)
	for {
		room, err := c.room(ctx)
		if err != nil {
			return err
		}
		n, err := from.Read(buf[header : header+int(min(room, part))])
		if n > 0 {
			putHeader(buf, channel, c.spend(n))
			if err := j.ws.Binary(buf[:header+n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// feed moves standard input to the program. What one that has closed its input cannot
// take is dropped.
func (j *joint) feed(ctx context.Context) error {
	for {
		p, end, ok := j.in.take(ctx)
		if !ok {
			return nil // somebody else has ended it
		}
		if end {
			_ = j.proc.Stdin().Close() // closed already when the program has ended
			return nil
		}
		refused := j.deaf.Load()
		if !refused {
			_, err := j.proc.Stdin().Write(p)
			refused = err != nil
		}
		if refused && ctx.Err() == nil {
			if err := j.drop(); err != nil {
				return err
			}
		}
	}
}

// drop tells the client that no input is wanted any more, once, and confirms what has
// come all the same, so that it does not wait.
func (j *joint) drop() error {
	var err error
	if !j.deaf.Swap(true) {
		err = j.ws.Text(api.ProcessMessage{Type: "stdin_close"})
	}
	if seq := j.in.came(); err == nil && j.in.tell(seq) {
		err = j.ws.Text(api.ProcessMessage{Type: "ack", Seq: seq})
	}
	return err
}

// tellTaken tells the client how much of its input the guest has, until ctx ends.
func (j *joint) tellTaken(ctx context.Context, t live.Taker) {
	live.Follow(ctx, t, func(seq int64) (err error) { // the reader sees a broken connection
		if j.in.tell(seq) {
			err = j.ws.Text(api.ProcessMessage{Type: "ack", Seq: seq})
		}
		if _, stopped := j.proc.Stdin().Write(nil); stopped != nil && err == nil {
			err = j.drop()
		}
		return err
	})
}

// read takes what the client sends until it closes; the error is why.
func (j *joint) read(ctx context.Context, cancel context.CancelCauseFunc) error {
	for {
		err := j.next(ctx)
		if err != nil {
			cancel(err)
			return err
		}
	}
}

func (j *joint) next(ctx context.Context) error {
	m, err := j.ws.Next()
	if err != nil {
		return err
	}
	if m.Text != nil {
		return j.command(ctx, m.Text)
	}
	b, err := io.ReadAll(io.LimitReader(m.Binary, maxFrame+1))
	if err != nil {
		return err
	}
	f, err := parseFrame(b)
	if err != nil {
		return err
	}
	if f.channel != api.ChannelStdin {
		return fmt.Errorf("%w: channel %d is not the client's", stream.ErrProtocol, f.channel)
	}
	return j.in.accept(f)
}

func (j *joint) command(ctx context.Context, text []byte) error {
	m, err := ParseMessage(text)
	if err != nil {
		return err
	}
	switch m.Type {
	case "ack":
		switch m.Channel {
		case api.ChannelStdout:
			return j.out.ack(m.Seq)
		case api.ChannelStderr:
			return j.err.ack(m.Seq)
		}
		return fmt.Errorf("%w: channel %d has no output", stream.ErrProtocol, m.Channel)
	case "stdin_close":
		j.in.close()
		return nil
	case "kill":
		name := "SIGTERM"
		if m.Signal != nil {
			name = *m.Signal
		}
		return late(j.execs.Signal(ctx, j.id, name))
	}
	return fmt.Errorf("%w: %q is no message of a client here", stream.ErrProtocol, m.Type)
}

// late drops what a signal to a process that has just ended says: its end is on the
// way.
func late(err error) error {
	if e := fault.From(err); e == nil || e.Code == api.CodePrecondition || e.Code == api.CodeNotFound {
		return nil
	}
	return err
}
