package client

import (
	"context"
	"errors"
	"io"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Exec runs programs in the guest.
type Exec struct{ c *Client }

// Start starts a program. With an id in spec it may be called again: an exec
// that was started under it is returned as it is now.
func (x *Exec) Start(ctx context.Context, spec guest.ExecSpec) (st guest.ExecStatus, err error) {
	return st, x.c.call(ctx, guest.OpExecStart, spec, &st)
}

// List returns running and lately ended execs, oldest first.
func (x *Exec) List(ctx context.Context) ([]guest.ExecStatus, error) {
	var l guest.ExecList
	err := x.c.call(ctx, guest.OpExecList, struct{}{}, &l)
	return l.Execs, err
}

// Status returns the present state of an exec.
func (x *Exec) Status(ctx context.Context, id guest.ExecID) (st guest.ExecStatus, err error) {
	return st, x.c.call(ctx, guest.OpExecStatus, guest.ExecRef{ID: id}, &st)
}

// Wait returns the final state of an exec. It goes on over lost connections.
func (x *Exec) Wait(ctx context.Context, id guest.ExecID) (st guest.ExecStatus, err error) {
	for {
		err = x.c.call(ctx, guest.OpExecWait, guest.ExecRef{ID: id}, &st)
		if !errors.Is(err, ErrLinkLost) || ctx.Err() != nil {
			return st, err
		}
	}
}

// Signal sends a signal by name, e.g. TERM, to the exec's process group; KILL
// goes to every process that the exec started.
func (x *Exec) Signal(ctx context.Context, id guest.ExecID, sig string) error {
	return x.c.call(ctx, guest.OpExecSignal, guest.ExecSignal{ID: id, Signal: sig}, nil)
}

// Resize sets the size of an exec's terminal, in characters.
func (x *Exec) Resize(ctx context.Context, id guest.ExecID, cols, rows uint16) error {
	return x.c.call(ctx, guest.OpExecResize, guest.ExecResize{ID: id, Cols: cols, Rows: rows}, nil)
}

// Remove ends an exec if it runs, and forgets it.
func (x *Exec) Remove(ctx context.Context, id guest.ExecID) error {
	return x.c.call(ctx, guest.OpExecRemove, guest.ExecRef{ID: id}, nil)
}

// AttachOptions say from which offsets on the output is wanted; a negative one
// means from now on. Stdin takes over the standard input from whoever feeds it. Lag
// is how many bytes that were read may be asked for again.
type AttachOptions struct {
	OutFrom, ErrFrom int64
	Stdin            bool
	Lag              int64
}

// Attachment is a client's hold on an exec. Its streams end with the exec, or
// with ErrLinkLost; the exec then goes on, and can be attached again from the
// offset up to which its output was read. Both outputs must be read (or
// discarded): the program waits for the slower.
type Attachment struct {
	Stdout io.Reader
	Stderr io.Reader
	Stdin  *Stdin
	// Status is the exec's state at the attach; its In is the offset at which
	// standard input goes on.
	Status guest.ExecStatus
	// OutFrom and ErrFrom are the offsets at which the outputs begin, later
	// than asked for if bytes were dropped meanwhile.
	OutFrom, ErrFrom int64

	x       *Exec
	streams []*mux.Stream
}

// Attach connects to an exec. ctx bounds the attaching only.
func (x *Exec) Attach(ctx context.Context, id guest.ExecID, o AttachOptions) (*Attachment, error) {
	params := guest.ExecAttachParams{ID: id, OutFrom: o.OutFrom, ErrFrom: o.ErrFrom, Stdin: o.Stdin, Lag: o.Lag}
	p, err := x.c.open(ctx, guest.OpExecAttach, params, 2)
	if err != nil {
		return nil, err
	}
	var at guest.ExecAttached
	if err := await(ctx, p, guest.OpExecAttach, &at); err != nil {
		return nil, err
	}
	a := &Attachment{
		Stdout: p.Streams[0], Stderr: p.Streams[1], Stdin: &Stdin{},
		Status: at.Status, OutFrom: at.OutFrom, ErrFrom: at.ErrFrom, x: x, streams: p.Streams,
	}
	if o.Stdin {
		a.Stdin = &Stdin{st: p.Streams[0], base: at.Status.In}
	}
	return a, nil
}

// Resize sets the size of the terminal, in characters.
func (a *Attachment) Resize(ctx context.Context, cols, rows uint16) error {
	return a.x.Resize(ctx, a.Status.ID, cols, rows)
}

// Signal sends a signal by name.
func (a *Attachment) Signal(ctx context.Context, name string) error {
	return a.x.Signal(ctx, a.Status.ID, name)
}

// Wait returns the final state of the exec; its output must be read meanwhile.
func (a *Attachment) Wait(ctx context.Context) (guest.ExecStatus, error) {
	return a.x.Wait(ctx, a.Status.ID)
}

// Close detaches; the exec goes on unless it was started with KillOnDetach.
func (a *Attachment) Close() error {
	return errors.Join(a.streams[0].Close(), a.streams[1].Close())
}
