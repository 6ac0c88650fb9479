package harness

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"sync"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// Transport implements session.SupervisorTransport. A link that breaks ends the
// stream: a supervisor that nobody hears is ended, and its run fails.
type Transport struct {
	Guest Guest
	// Dir is where supervisors run unless they say otherwise.
	Dir string
	// Logger takes what they say on standard error.
	Logger *slog.Logger
}

var _ session.SupervisorTransport = (*Transport)(nil)

// Open implements session.SupervisorTransport.
func (t *Transport) Open(ctx context.Context, scope session.Scope, l session.Lease, p session.Process) (io.ReadWriteCloser, error) {
	x, err := start(ctx, t.Guest, l, job{Process: p, spec: guest.ExecSpec{Dir: t.Dir, Stdin: true, KillOnDetach: true}})
	if err != nil {
		return nil, err
	}
	a, err := x.execs.Attach(ctx, guest.ExecAttachParams{ID: x.id, Stdin: true})
	if err != nil {
		x.forget(ctx)
		return nil, err
	}
	c := &conn{Reader: a.Stdout(), Writer: a.Stdin(), process: x, attached: a, ctx: context.WithoutCancel(ctx)}
	c.draining.Go(func() { drain(a.Stderr(), t.Logger.With("session", scope.Session)) })
	return c, nil
}

// maxLine is how much of a line is logged, in bytes.
const maxLine = 1 << 10

// drain logs lines until the stream ends; long ones are cut.
func drain(r io.Reader, log *slog.Logger) {
	for lines := bufio.NewReaderSize(r, maxLine); ; {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		log.Debug("supervisor says", "line", string(line))
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
}

// conn is the supervisor's stdin and stdout.
type conn struct {
	io.Reader
	io.Writer

	process  *process
	attached live.Attachment
	draining sync.WaitGroup
	ctx      context.Context // of Close, which has none; it never ends

	once sync.Once
	err  error
}

// Close implements io.Closer: it ends the process group.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.process.stop(c.ctx)
		c.err = c.attached.Close()
		c.process.forget(c.ctx)
		c.draining.Wait()
	})
	return c.err
}
