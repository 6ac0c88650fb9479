package exec

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// inline is how much output of a run travels in its answer, in bytes.
const inline = 64 << 10

// Routes are the operations of the table.
func (t *Table) Routes() mux.Router {
	return mux.Router{
		guest.OpExecStart:       mux.Typed(t.opStart),
		guest.OpExecStartSealed: mux.Typed(t.opStartSealed),
		guest.OpExecUnseal:      mux.Streaming(1, t.opUnseal),
		guest.OpExecRun:         mux.Streaming(2, t.opRun),
		guest.OpExecAttach:      mux.Streaming(2, t.opAttach),
		guest.OpExecWait:        mux.Typed(t.opWait),
		guest.OpExecStatus: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.ExecRef) (guest.ExecStatus, error) {
			e, err := t.Get(p.ID)
			if err != nil {
				return guest.ExecStatus{}, err
			}
			return e.Status(), nil
		}),
		guest.OpExecList: mux.Typed(func(context.Context, *mux.Call, struct{}) (guest.ExecList, error) {
			return guest.ExecList{Execs: t.List()}, nil
		}),
		guest.OpExecSignal: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.ExecSignal) (any, error) {
			e, err := t.Get(p.ID)
			if err != nil {
				return nil, err
			}
			return nil, e.Signal(p.Signal)
		}),
		guest.OpExecResize: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.ExecResize) (any, error) {
			e, err := t.Get(p.ID)
			if err != nil {
				return nil, err
			}
			return nil, e.Resize(p.Cols, p.Rows)
		}),
		guest.OpExecRemove: mux.Typed(func(ctx context.Context, _ *mux.Call, p guest.ExecRef) (any, error) {
			return nil, t.Remove(ctx, p.ID)
		}),
	}
}

func (t *Table) opStart(_ context.Context, _ *mux.Call, spec guest.ExecSpec) (guest.ExecStatus, error) {
	e, err := t.Start(spec)
	if err != nil {
		return guest.ExecStatus{}, err
	}
	return e.Status(), nil
}

func (t *Table) opWait(ctx context.Context, _ *mux.Call, p guest.ExecRef) (guest.ExecStatus, error) {
	e, err := t.Get(p.ID)
	if err != nil {
		return guest.ExecStatus{}, err
	}
	return e.Wait(ctx)
}

func (t *Table) opAttach(ctx context.Context, c *mux.Call, p guest.ExecAttachParams) (any, error) {
	e, err := t.Get(p.ID)
	if err != nil {
		return nil, err
	}
	a := e.join(c.Streams, p)
	defer a.close()
	if p.Stdin {
		if err := a.takeStdin(); err != nil {
			return nil, err
		}
	}
	err = c.Reply(guest.ExecAttached{Status: e.Status(), OutFrom: a.out.next, ErrFrom: a.err.next})
	if err != nil {
		return nil, err
	}
	return nil, a.copy(ctx)
}

func (t *Table) opRun(ctx context.Context, c *mux.Call, p guest.ExecRunParams) (any, error) {
	e, err := t.Start(p.Spec)
	if err != nil {
		return nil, err
	}
	a := e.join(c.Streams, guest.ExecAttachParams{})
	defer a.close()
	if p.Spec.Stdin {
		if err := a.takeStdin(); err != nil {
			return nil, err
		}
		a.first, a.only = p.Stdin, !p.More
	}
	res, err := a.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		// Who asked has given up or run out of time; a lost link is neither.
		e.end()
	}
	return res, err
}

// attachment connects one call's streams with an exec.
type attachment struct {
	e        *Exec
	streams  []*mux.Stream
	out, err *reader
	feeding  *feeder // nil: this client does not feed standard input
	first    []byte  // standard input that came with the request
	only     bool    // and there is no more
}

func (e *Exec) join(streams []*mux.Stream, p guest.ExecAttachParams) *attachment {
	e.attach(1)
	return &attachment{e: e, streams: streams, out: e.out.attach(p.OutFrom, p.Lag), err: e.err.attach(p.ErrFrom, p.Lag)}
}

// takeStdin makes this client the one who feeds the program. Where the input
// has ended already it learns so from its first write.
func (a *attachment) takeStdin() error {
	if !a.e.spec.Stdin {
		return &guest.Error{Code: guest.CodeInvalid, Message: "the exec was started without standard input"}
	}
	var open bool
	// Where another takes over, the client learns that no more is wanted.
	stop := func() { _ = a.streams[0].CloseRead() }
	if a.feeding, open = a.e.stdin.take(stop); !open {
		return a.streams[0].CloseRead()
	}
	return nil
}

func (a *attachment) close() {
	a.out.stop()
	a.err.stop()
	if a.feeding != nil {
		a.feeding.finish()
	}
	a.e.attach(-1)
}

// while runs fn beside the feeding of standard input, and makes both end when
// ctx ends.
func (a *attachment) while(ctx context.Context, fn func() error) error {
	var work sync.WaitGroup
	stop := context.AfterFunc(ctx, func() {
		a.out.stop()
		a.err.stop()
	})
	defer stop()
	if a.feeding != nil {
		work.Go(a.feed)
	}
	err := fn()
	if a.feeding != nil {
		a.e.stdin.interrupt(a.feeding)
	}
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// feed moves standard input from the client to the program.
func (a *attachment) feed() {
	defer a.feeding.finish()
	in := &a.e.stdin
	if _, err := in.Write(a.first); err != nil {
		_ = a.streams[0].CloseRead()
		return
	}
	if a.only {
		in.end()
		return
	}
	buf := make([]byte, pumpSize)
	for {
		n, err := a.streams[0].Read(buf)
		if n > 0 {
			if _, werr := in.Write(buf[:n]); werr != nil {
				_ = a.streams[0].CloseRead() // the program reads no more
				return
			}
		}
		if errors.Is(err, io.EOF) {
			in.end()
			return
		}
		if err != nil {
			return // the client is gone, the program may get another
		}
	}
}

// copy sends the output until it is over.
func (a *attachment) copy(ctx context.Context) error {
	return a.while(ctx, func() error { return a.both(true) })
}

// both sends what the rings hold, each to its stream, until they are over.
func (a *attachment) both(closing bool) error {
	var work sync.WaitGroup
	var outErr, errErr error
	work.Go(func() { outErr = send(a.out, a.streams[0], closing) })
	work.Go(func() { errErr = send(a.err, a.streams[1], closing) })
	work.Wait()
	return errors.Join(outErr, errErr)
}

func send(rd *reader, to *mux.Stream, closing bool) error {
	to.NotifyRead(func() { rd.acknowledge(to.Unread) })
	defer to.NotifyRead(nil)
	buf := make([]byte, pumpSize)
	for {
		n, err := rd.Read(buf)
		if errors.Is(err, io.EOF) {
			if closing {
				return to.CloseWrite()
			}
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := to.Write(buf[:n]); errors.Is(err, mux.ErrStopped) {
			// The client wants none of this stream: it must not hold the
			// program up.
			rd.stop()
			return nil
		} else if err != nil {
			rd.stop()
			return err
		}
		rd.passOn()
		rd.acknowledge(to.Unread)
	}
}

// run waits for the program's end. Short output comes back in the result, long
// output goes to the streams as it appears.
func (a *attachment) run(ctx context.Context) (res guest.ExecRunResult, err error) {
	err = a.while(ctx, func() error {
		settled := make(chan bool, 2)
		var work sync.WaitGroup
		// Long output on one stream must flow while the other is silent.
		for _, rd := range []*reader{a.out, a.err} {
			work.Go(func() { settled <- rd.settled(inline / 2) })
		}
		short := <-settled
		if short {
			short = <-settled
		}
		if !short {
			err := a.both(false)
			work.Wait()
			return err
		}
		work.Wait()
		var outErr, errErr error
		res.Stdout, outErr = io.ReadAll(a.out)
		res.Stderr, errErr = io.ReadAll(a.err)
		return errors.Join(outErr, errErr)
	})
	if err != nil {
		return res, err
	}
	res.Status, err = a.e.Wait(ctx)
	return res, err
}
