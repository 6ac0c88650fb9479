// Package attach joins a user's terminal or streams to an exec of a desktop.
package attach

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// interruptGrace is how long an interrupted program may take to end.
const interruptGrace = 5 * time.Second

// Terminal is the user's.
type Terminal interface {
	// Raw switches off echo, lines and signals until restore is called.
	Raw() (restore func() error, err error)
	// Sizes sends the size now and whenever it changes, until ctx ends.
	Sizes(ctx context.Context) <-chan client.Size
}

// Session is one attached exec. It is used once.
type Session struct {
	Desktop  *client.Desktop
	ID       string    // of an exec that runs; empty: Run starts one
	In       io.Reader // nil: no input is sent
	Out, Err io.Writer
	Terminal Terminal // nil: the program has none

	down atomic.Bool // the link is broken
}

// Run starts the exec unless it runs, follows it and returns how it ended.
func (s *Session) Run(ctx context.Context, spec api.Exec) (api.ExecStatus, error) {
	// An interrupt must reach the program before the link goes.
	link, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	streams := client.Streams{Stdout: s.Out, Stderr: s.Err, Notify: s.notify}
	if s.ID != "" {
		streams.OutFrom, streams.ErrFrom = client.FromKept, client.FromKept
	}
	if s.In != nil {
		streams.Stdin = s.In
	}
	if s.Terminal != nil {
		if s.In != nil {
			streams.Stdin = &escape{r: s.In, armed: &s.down, leave: leave}
		}
		restore, sizes, err := s.terminal(link, &spec)
		if err != nil {
			return api.ExecStatus{}, err
		}
		defer restore()
		streams.Resize = sizes
	}
	if s.ID == "" {
		started, err := s.Desktop.Execs().Start(ctx, spec)
		if err != nil {
			return started, err
		}
		s.ID = started.ID
	}
	stop := context.AfterFunc(ctx, func() { s.interrupt(link, leave) })
	defer stop()
	status, err := s.Desktop.Execs().Attach(link, s.ID, streams)
	if err != nil && link.Err() != nil {
		fmt.Fprintf(s.Err, "vmhost: left exec %s; attach again with: vmhost exec --attach %s %s\n", s.ID, s.ID, s.Desktop.Ref())
	}
	return status, err
}

// terminal makes the user's terminal the program's.
func (s *Session) terminal(ctx context.Context, spec *api.Exec) (restore func(), _ <-chan client.Size, _ error) {
	undo, err := s.Terminal.Raw()
	if err != nil {
		return nil, nil, fmt.Errorf("set up terminal: %w", err)
	}
	sizes := s.Terminal.Sizes(ctx)
	select {
	case size := <-sizes:
		spec.Cols, spec.Rows = size.Cols, size.Rows
	case <-time.After(time.Second): // a terminal that does not know its size
	}
	return func() { _ = undo() }, sizes, nil
}

// interrupt hands an interrupt to the program, and leaves when that does not
// end it.
func (s *Session) interrupt(ctx context.Context, leave func()) {
	if s.Terminal != nil {
		leave() // the keyboard's interrupts went the way of all keys
		return
	}
	// Not being able to say so ends in leaving, too.
	_ = s.Desktop.Execs().Signal(ctx, s.ID, "INT")
	t := time.NewTimer(interruptGrace)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
		leave()
	}
}

// notify tells of broken links. A raw terminal needs carriage returns.
func (s *Session) notify(n client.Notice) {
	end, begin := "\n", ""
	if s.Terminal != nil {
		end, begin = "\r\n", "\r\n"
	}
	switch {
	case n.Lost != nil:
		s.down.Store(true)
		fmt.Fprintf(s.Err, "%svmhost: link lost (%v); attaching again to %s%s", begin, n.Lost, s.ID, end)
	case n.Rejoined:
		s.down.Store(false)
		fmt.Fprintf(s.Err, "vmhost: attached again%s", end)
	case n.Missing > 0:
		fmt.Fprintf(s.Err, "%svmhost: %d bytes of %s are no longer kept%s", begin, n.Missing, n.Stream, end)
	}
}

// escape leaves when Ctrl-C is pressed while the link is down, when nobody else
// would hear it.
type escape struct {
	r     io.Reader
	armed *atomic.Bool
	leave func()
}

func (e *escape) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.armed.Load() {
		for _, b := range p[:n] {
			if b == 3 {
				e.leave()
			}
		}
	}
	return n, err
}
