package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// MaxOutput bounds what Run collects of each output, in bytes. It is the one
// limit of one-shot execs: nobody above collects more, or cuts again.
const MaxOutput = 16 << 20

// maxInlineStdin is how much standard input travels with the request.
const maxInlineStdin = 128 << 10

// late is how long after its limit of time the end of a program may be told.
const late = 10 * time.Second

var errLate = fmt.Errorf("the guest does not answer, and the program's limit has passed: %w", context.DeadlineExceeded)

// Result is the end of a program that was run.
type Result struct {
	Stdout, Stderr []byte // at most MaxOutput bytes each
	// Truncated says that the program wrote more to one of them; Status counts
	// all of it.
	Truncated bool
	Status    guest.ExecStatus
}

// Run runs a program to its end and collects its output, in one round trip
// where the output is short. stdin may be nil. When ctx ends the program is
// killed; when the connection breaks it goes on, and Run takes up its output and
// its input again where they broke. Of longer output the first MaxOutput bytes
// are kept; the program goes on and is not held up. Run returns after the Read of
// stdin that is under way has returned.
func (x *Exec) Run(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (Result, error) {
	if spec.ID == "" {
		spec.ID = guest.ExecID(strings.ToLower(rand.Text()[:16]))
	}
	r := &run{x: x, params: guest.ExecRunParams{Spec: spec}}
	if spec.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout+x.c.scaled(late), errLate)
		defer cancel()
	}
	if stdin != nil {
		r.params.Spec.Stdin, r.params.More, r.in.from = true, true, stdin
	}
	if sized, ok := stdin.(interface{ Len() int }); ok && sized.Len() <= maxInlineStdin {
		if err := r.inline(stdin); err != nil {
			return Result{}, err
		}
	}
	err := r.first(ctx)
	for errors.Is(err, ErrLinkLost) && ctx.Err() == nil {
		err = r.again(ctx)
	}
	return Result{Stdout: r.out.b, Stderr: r.err.b, Truncated: r.out.over || r.err.over, Status: r.status}, err
}

// inline sends all of a short standard input with the request.
func (r *run) inline(stdin io.Reader) error {
	b, err := io.ReadAll(stdin)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	r.params.Stdin, r.params.More, r.in.from = b, false, nil
	r.in.again.Append(b)
	_, err = r.in.again.Join(0)
	return err
}

// Output is Run that takes only a clean exit as success: a program that ended
// otherwise is an error that quotes the end of its standard error.
func (x *Exec) Output(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (Result, error) {
	res, err := x.Run(ctx, spec, stdin)
	if err != nil || res.Status.ExitCode == 0 && !res.Status.TimedOut {
		return res, err
	}
	const tail = 512
	text := strings.TrimSpace(string(res.Stderr[max(0, len(res.Stderr)-tail):]))
	return res, fmt.Errorf("run %q in guest: exit status %d: %s", res.Status.Argv, res.Status.ExitCode, text)
}

type run struct {
	x        *Exec
	params   guest.ExecRunParams
	in       input
	out, err limited
	status   guest.ExecStatus
}

// limited collects bytes up to MaxOutput.
type limited struct {
	b    []byte
	over bool // there was more
}

var errFull = errors.New("output is above what is collected")

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), MaxOutput-len(l.b))
	l.b = append(l.b, p[:n]...)
	if n < len(p) {
		l.over = true
		return n, errFull
	}
	return n, nil
}

// from is the offset at which a new connection goes on: behind what is there, or
// now, when no more is wanted.
func (l *limited) from() int64 {
	if l.over {
		return -1
	}
	return int64(len(l.b))
}

// drain collects a stream to its end. When it is too long the guest learns that
// no more is wanted, and lets the program go on.
func (l *limited) drain(from *mux.Stream) error {
	var err error
	if !l.over {
		_, err = io.Copy(l, onlyReader{from})
	}
	if l.over {
		return from.CloseRead()
	}
	return err
}

func (r *run) first(ctx context.Context) error {
	p, err := r.x.c.open(ctx, guest.OpExecRun, r.params, 2)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.Cancel)
	defer stop()
	var work sync.WaitGroup
	if r.params.More {
		work.Go(func() {
			if err := r.in.feed(&Stdin{st: p.Streams[0]}); err != nil && !errors.Is(err, ErrLinkLost) {
				p.Cancel()
			}
		})
	}
	work.Go(func() { _ = r.collect(p.Streams) }) // the answer tells of a lost link
	var res guest.ExecRunResult
	err = await(ctx, p, guest.OpExecRun, &res)
	work.Wait()
	switch {
	case err != nil && r.in.failed != nil && ctx.Err() == nil:
		return fmt.Errorf("read standard input: %w", r.in.failed)
	case err != nil:
		return err
	}
	r.status = res.Status
	r.out.b = append(r.out.b, res.Stdout...)
	r.err.b = append(r.err.b, res.Stderr...)
	return nil
}

// collect reads both outputs to their ends.
func (r *run) collect(streams []*mux.Stream) error {
	var work sync.WaitGroup
	var outErr, errErr error
	work.Go(func() { outErr = r.out.drain(streams[0]) })
	work.Go(func() { errErr = r.err.drain(streams[1]) })
	work.Wait()
	return errors.Join(outErr, errErr)
}

// again takes up a program whose connection was lost.
func (r *run) again(ctx context.Context) error {
	outAt, errAt := r.out.from(), r.err.from()
	a, err := r.x.Attach(ctx, r.params.Spec.ID, AttachOptions{OutFrom: outAt, ErrFrom: errAt, Stdin: r.params.Spec.Stdin})
	if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) && outAt == 0 && errAt == 0 {
		return r.first(ctx) // the request never arrived
	}
	if err != nil {
		return err
	}
	detach := func() { _ = a.Close() } // a lost link needs no close
	defer detach()
	if !r.out.over && a.OutFrom != outAt || !r.err.over && a.ErrFrom != errAt {
		return &guest.Error{Code: guest.CodeGone, Message: "output was dropped while the connection was lost; start the program with a larger ring"}
	}
	stop := context.AfterFunc(ctx, detach)
	defer stop()
	var work sync.WaitGroup
	if r.params.Spec.Stdin {
		work.Go(func() {
			if err := r.in.feed(a.Stdin); err != nil && !errors.Is(err, ErrLinkLost) {
				detach()
			}
		})
	}
	err = r.collect(a.streams)
	work.Wait()
	switch {
	case ctx.Err() != nil:
		r.kill(ctx)
		return context.Cause(ctx)
	case r.in.failed != nil:
		r.kill(ctx)
		return fmt.Errorf("read standard input: %w", r.in.failed)
	case err != nil:
		return err
	}
	r.status, err = a.Wait(ctx)
	return err
}

// kill ends a program that nobody waits for any more, also after the end of ctx.
func (r *run) kill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.x.c.scaled(5*time.Second))
	defer cancel()
	_ = r.x.Signal(ctx, r.params.Spec.ID, "KILL") // it may have ended
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
