package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/program"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Exec joins a WebSocket to an exec until the exec ends or the client leaves, and
// closes both; the exec goes on. The error is for the log: the client was told.
func Exec(ctx context.Context, ws *stream.Socket, a live.Attachment, execs live.Execs, id guest.ExecID) error {
	j := &joint{ws: ws, exec: a, execs: execs, id: id}
	end := j.run(ctx)
	_ = a.Close() // ends a write to a program that reads nothing
	ws.Close(end)
	j.reader.Wait()
	return end
}

// joint is a WebSocket joined to an attachment.
type joint struct {
	ws     *stream.Socket
	exec   live.Attachment
	execs  live.Execs
	id     guest.ExecID
	reader sync.WaitGroup
	deaf   bool // the program takes no input any more; the reader's own
}

// run copies both ways until the exec ends or the client goes away. The error is
// for the log; the client has been told.
func (j *joint) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started := j.exec.Started()
	st := program.Status(started.Status)
	err := j.ws.Text(api.ExecMessage{Kind: "attached", Status: &st, OutFrom: started.OutFrom, ErrFrom: started.ErrFrom})
	if err != nil {
		return err
	}
	// A client that goes away ends the reads of the attachment.
	stop := context.AfterFunc(ctx, func() { _ = j.exec.Close() })
	defer stop()
	j.reader.Go(func() { cancel(j.read(ctx)) })
	if in, ok := j.exec.Stdin().(live.Taker); ok {
		j.reader.Go(func() { j.tellTaken(ctx, in) })
	}
	var outputs sync.WaitGroup
	outputs.Go(func() { j.copy(cancel, j.exec.Stdout(), api.ChannelStdout) })
	outputs.Go(func() { j.copy(cancel, j.exec.Stderr(), api.ChannelStderr) })
	outputs.Wait()
	final, err := j.exec.Wait(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil // the client left; the program goes on
	}
	if err != nil {
		return errors.Join(err, j.ws.Text(api.ExecMessage{Kind: "error", Error: Fault(err)}))
	}
	st = program.Status(final)
	return j.ws.Text(api.ExecMessage{Kind: "end", Status: &st})
}

// tellTaken tells the client how much of its input need not be sent again, until
// ctx ends.
func (j *joint) tellTaken(ctx context.Context, in live.Taker) {
	live.Follow(ctx, in, func(taken int64) error {
		return j.ws.Text(api.ExecMessage{Kind: "taken", In: taken}) // the reader sees a broken link
	})
}

func (j *joint) copy(cancel context.CancelCauseFunc, r io.Reader, channel byte) {
	if err := j.ws.Copy(r, channel); err != nil {
		cancel(err)
	}
}

// read takes what the client sends until it closes.
func (j *joint) read(ctx context.Context) error {
	for {
		m, err := j.ws.Next()
		if err != nil {
			return err
		}
		if m.Binary != nil {
			err = j.input(m.Binary)
		} else {
			err = j.command(ctx, m.Text)
		}
		if err != nil {
			return err
		}
	}
}

// input writes one binary message to the program. What a program that has closed
// its input cannot take is dropped, and the client is told to stop.
func (j *joint) input(r io.Reader) error {
	var channel [1]byte
	if _, err := io.ReadFull(r, channel[:]); err != nil {
		return fmt.Errorf("%w: binary message without a channel", stream.ErrProtocol)
	}
	if channel[0] != api.ChannelStdin {
		return fmt.Errorf("%w: channel %d is not the client's", stream.ErrProtocol, channel[0])
	}
	in := j.exec.Stdin()
	if in == nil {
		return fmt.Errorf("%w: standard input was not asked for (stdin=true)", stream.ErrProtocol)
	}
	if j.deaf {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	if _, err := io.Copy(in, r); err != nil {
		j.deaf = true
		if err := j.ws.Text(api.ExecMessage{Kind: "stopped"}); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return err
	}
	return nil
}

func (j *joint) command(ctx context.Context, text []byte) error {
	var m api.ExecMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrProtocol, err)
	}
	var err error
	switch m.Kind {
	case "eof":
		if in := j.exec.Stdin(); in != nil {
			_ = in.Close() // it is closed when the program has ended
		}
	case "resize":
		err = j.exec.Resize(ctx, m.Cols, m.Rows)
	case "signal":
		err = j.execs.Signal(ctx, j.id, m.Signal)
	default:
		return fmt.Errorf("%w: unknown kind %q", stream.ErrProtocol, m.Kind)
	}
	// A program that has just ended takes no signal: its end is on the way.
	if e := fault.From(err); e != nil && e.Code != api.CodePrecondition && e.Code != api.CodeNotFound {
		return err
	}
	return nil
}
