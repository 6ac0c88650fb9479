// Package link follows an exec over one WebSocket after the other, so that each
// byte of its output is written exactly once although links break.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/internal/x/replay"
	"github.com/deskfork/deskfork/pkg/api"
)

// Size is that of a terminal, in cells.
type Size struct{ Cols, Rows uint16 }

// Streams are the ends of an exec on this side. Zero: its output is dropped.
type Streams struct {
	// Stdin is sent until its end, which closes the program's input. Follow does
	// not wait for a Read that blocks: after its return one more chunk may be
	// taken from Stdin and dropped.
	Stdin  io.Reader
	Stdout io.Writer // nil: dropped
	Stderr io.Writer // nil: dropped; with a PTY all output comes on Stdout
	// OutFrom and ErrFrom are the offsets of the first bytes wanted: 0 from the
	// very start, FromKept from the start of what is kept.
	OutFrom, ErrFrom int64
	Resize           <-chan Size // sizes of the terminal as they change
	// Notify hears of broken links and missing output. It must not block.
	Notify func(Notice)
}

// FromKept asks for output from the start of what the guest still keeps.
const FromKept = -1

// Notice tells of what happened to the link of an attached exec.
type Notice struct {
	Lost     error  // the link broke; it is dialled again
	Rejoined bool   // the link is back and nothing was doubled
	Missing  int64  // bytes of Stream that the guest no longer keeps
	Stream   string // stdout or stderr
}

// GapError says that bytes are missing: output that was made while no link was
// up and was more than the guest keeps, or input that the guest had and has no
// longer, as after a return to an earlier state.
type GapError struct {
	Stream   string // stdout, stderr or stdin
	From, To int64  // offsets: bytes in [From, To) are missing
}

func (e *GapError) Error() string {
	return fmt.Sprintf("bytes %d to %d of %s are no longer kept", e.From, e.To, e.Stream)
}

// Ask is what a link is to carry.
type Ask struct {
	Out, Err int64 // offsets of the first bytes of output
	Stdin    bool
}

// Config is what a followed exec hangs on.
type Config struct {
	// Dial opens a link.
	Dial func(context.Context, Ask) (*websocket.Conn, error)
	// Fault gives an error of the link a code.
	Fault func(context.Context, error) error
	// Transient says that an error is of the link and may pass.
	Transient func(error) bool
	// Retries is how often the first dial is repeated.
	Retries int
	// Pause is the first one between two attempts; it doubles.
	Pause time.Duration
	// Patience is how long a broken link is dialled again.
	Patience time.Duration
}

// Follow copies the streams of an exec until it ends and says how. Ending ctx
// detaches. When output is missing the error is a *GapError, and all else was
// copied.
func Follow(ctx context.Context, cfg Config, streams Streams) (api.ExecStatus, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &attachment{
		cfg: cfg,
		out: channel{name: "stdout", w: streams.Stdout, at: streams.OutFrom},
		err: channel{name: "stderr", w: streams.Stderr, at: streams.ErrFrom},
		tty: streams.Resize, notify: streams.Notify,
	}
	if streams.Stdin != nil {
		a.input = readInput(ctx, streams.Stdin)
	}
	return a.run(ctx)
}

// attachment is an exec's streams over one link after the other.
type attachment struct {
	cfg    Config
	out    channel
	err    channel
	gap    *GapError
	input  <-chan []byte // nil: none; closed at the end of input
	tty    <-chan Size
	notify func(Notice)

	taken atomic.Int64 // offset below which the guest has the input
	deaf  atomic.Bool  // the exec takes no input any more

	// Owned by the link's sender while a link is up.
	again replay.Buffer // input that the guest may not have
	eof   bool          // input has ended
	size  Size          // last one seen
}

func (a *attachment) run(ctx context.Context) (api.ExecStatus, error) {
	link, lost, ever := NewRedial(a.cfg.Pause, a.cfg.Patience), false, false
	for attempt := 0; ; attempt++ {
		status, alive, err := a.join(ctx, lost)
		if err == nil {
			if a.gap != nil {
				return *status, a.gap
			}
			return *status, nil
		}
		if alive {
			link, ever = NewRedial(a.cfg.Pause, a.cfg.Patience), true
		}
		if !a.cfg.Transient(err) || (!ever && attempt >= a.cfg.Retries) {
			return api.ExecStatus{}, err
		}
		if alive || !lost {
			a.tell(Notice{Lost: err})
		}
		lost = true
		if link.Wait(ctx) != nil {
			return api.ExecStatus{}, a.cfg.Fault(ctx, err)
		}
	}
}

// join runs one link. alive says that it was up; a nil error that the exec has
// ended.
func (a *attachment) join(ctx context.Context, again bool) (_ *api.ExecStatus, alive bool, _ error) {
	ask := Ask{Out: max(a.out.at, 0), Err: max(a.err.at, 0), Stdin: a.input != nil && !a.deaf.Load()}
	conn, err := a.cfg.Dial(ctx, ask)
	if ask.Stdin && errors.Is(err, &api.Error{Code: api.CodePrecondition}) {
		// Its input is closed: it has ended, or an earlier link closed it.
		a.deaf.Store(true)
		ask.Stdin = false
		conn, err = a.cfg.Dial(ctx, ask)
	}
	if err != nil {
		return nil, false, err
	}
	s := newSender(a, conn)
	defer s.close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends the read below
	defer stop()
	status, alive, err := a.receive(conn, s, again)
	if err == nil {
		return status, true, nil
	}
	var problem *api.Error
	var local *localError
	if ctx.Err() == nil && (errors.As(err, &problem) || errors.As(err, &local)) {
		return nil, alive, err
	}
	return nil, alive, a.cfg.Fault(ctx, err)
}

// receive reads a link to its end.
func (a *attachment) receive(conn *websocket.Conn, s *sender, again bool) (_ *api.ExecStatus, alive bool, _ error) {
	for {
		kind, data, err := conn.ReadMessage()
		if err != nil {
			return nil, alive, err
		}
		s.heard()
		if kind == websocket.BinaryMessage {
			if err := a.output(data, alive); err != nil {
				return nil, alive, err
			}
			continue
		}
		m, err := decodeExec(data)
		if err != nil {
			return nil, alive, err
		}
		switch m.Kind {
		case "attached":
			alive = true
			if err := a.start(m); err != nil {
				return nil, alive, err
			}
			s.begin()
			if again {
				a.tell(Notice{Rejoined: true})
			}
		case "taken":
			a.taken.Store(m.In)
			s.nudge()
		case "stopped":
			a.deaf.Store(true)
			s.nudge()
		case "end":
			return m.Status, alive, nil
		case "error":
			return nil, alive, m.Error
		}
	}
}

// start takes the offsets from which a link's output begins, and at which its
// input goes on.
func (a *attachment) start(m api.ExecMessage) error {
	a.missing(a.out.begin(m.OutFrom))
	a.missing(a.err.begin(m.ErrFrom))
	if a.input == nil {
		return nil
	}
	_, err := a.again.Join(m.Status.In)
	if gap, ok := errors.AsType[*replay.GapError](err); ok {
		return &localError{&GapError{Stream: "stdin", From: gap.Want, To: gap.Have}}
	}
	a.taken.Store(m.Status.In)
	return err
}

func (a *attachment) missing(g *GapError) {
	if g == nil {
		return
	}
	if a.gap == nil {
		a.gap = g
	}
	a.tell(Notice{Missing: g.To - g.From, Stream: g.Stream})
}

func (a *attachment) output(data []byte, alive bool) error {
	if !alive || len(data) == 0 {
		return api.Errorf(api.CodeInternal, "server sent output before it said where it begins")
	}
	switch data[0] {
	case api.ChannelStdout:
		return a.out.write(data[1:])
	case api.ChannelStderr:
		return a.err.write(data[1:])
	default:
		return api.Errorf(api.CodeInternal, "server sent on unknown channel %d", data[0])
	}
}

func (a *attachment) tell(n Notice) {
	if a.notify != nil {
		a.notify(n)
	}
}
