package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// MaxOutput bounds what Run collects of each output, in bytes.
const MaxOutput = 64 << 20

// maxInlineStdin is how much standard input travels with the request.
const maxInlineStdin = 128 << 10

// Result is the end of a program that was run.
type Result struct {
	Stdout, Stderr []byte
	Status         guest.ExecStatus
}

// Run runs a program to its end and collects its output, in one round trip
// where the output is short. stdin may be nil. When ctx ends the program is
// killed; when the connection breaks it goes on, and Run takes its output up
// again unless stdin was being read. Output above MaxOutput is an error: attach
// to such a program instead. Run returns after the Read of stdin that is under
// way has returned.
func (x *Exec) Run(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (Result, error) {
	if spec.ID == "" {
		spec.ID = guest.ExecID(strings.ToLower(rand.Text()[:16]))
	}
	params := guest.ExecRunParams{Spec: spec}
	if stdin != nil {
		params.Spec.Stdin, params.More = true, true
		if sized, ok := stdin.(interface{ Len() int }); ok && sized.Len() <= maxInlineStdin {
			b, err := io.ReadAll(stdin)
			if err != nil {
				return Result{}, fmt.Errorf("read standard input: %w", err)
			}
			params.Stdin, params.More = b, false
		}
	}
	r := &run{x: x, params: params, stdin: stdin}
	err := r.first(ctx)
	for errors.Is(err, ErrLinkLost) && ctx.Err() == nil && !params.More {
		err = r.again(ctx)
	}
	return Result{Stdout: r.out.b.Bytes(), Stderr: r.err.b.Bytes(), Status: r.status}, err
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
	stdin    io.Reader
	out, err limited
	status   guest.ExecStatus
}

// limited collects bytes up to MaxOutput.
type limited struct{ b bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > MaxOutput {
		return 0, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("output is above %d bytes; attach to the program instead", MaxOutput)}
	}
	return l.b.Write(p)
}

func (r *run) first(ctx context.Context) error {
	p, err := r.x.c.open(ctx, guest.OpExecRun, r.params, 2)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.Cancel)
	defer stop()
	var work sync.WaitGroup
	var inErr, tooMuch error
	if r.params.More {
		work.Go(func() {
			_, inErr = io.Copy(onlyWriter{p.Streams[0]}, r.stdin)
			if inErr == nil {
				inErr = p.Streams[0].CloseWrite()
			}
			if errors.Is(inErr, mux.ErrStopped) || errors.Is(inErr, io.ErrClosedPipe) {
				inErr = nil // the program did not want all of it
			}
			if inErr != nil {
				p.Cancel()
			}
		})
	}
	work.Go(func() { tooMuch = r.collect(p.Streams, p.Cancel) })
	var res guest.ExecRunResult
	err = await(ctx, p, guest.OpExecRun, &res)
	work.Wait()
	switch {
	case isRefusal(tooMuch):
		return tooMuch
	case err != nil && inErr != nil && !errors.Is(inErr, ErrLinkLost) && ctx.Err() == nil:
		return fmt.Errorf("read standard input: %w", inErr)
	case err != nil:
		return err
	}
	r.status = res.Status
	r.out.b.Write(res.Stdout)
	r.err.b.Write(res.Stderr)
	return nil
}

func isRefusal(err error) bool { return errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) }

// collect reads both outputs to their ends. It calls refuse as soon as one is
// too long, which must end the other.
func (r *run) collect(streams []*mux.Stream, refuse func()) error {
	var work sync.WaitGroup
	var outErr, errErr error
	drain := func(to io.Writer, from *mux.Stream) error {
		_, err := io.Copy(to, onlyReader{from})
		if isRefusal(err) {
			refuse()
		}
		return err
	}
	work.Go(func() { outErr = drain(&r.out, streams[0]) })
	work.Go(func() { errErr = drain(&r.err, streams[1]) })
	work.Wait()
	return errors.Join(outErr, errErr)
}

// again takes up a program whose connection was lost.
func (r *run) again(ctx context.Context) error {
	outAt, errAt := int64(r.out.b.Len()), int64(r.err.b.Len())
	a, err := r.x.Attach(ctx, r.params.Spec.ID, AttachOptions{OutFrom: outAt, ErrFrom: errAt})
	if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) && outAt+errAt == 0 {
		return r.first(ctx) // the request never arrived
	}
	if err != nil {
		return err
	}
	detach := func() { _ = a.Close() } // a lost link needs no close
	defer detach()
	if a.OutFrom != outAt || a.ErrFrom != errAt {
		return &guest.Error{Code: guest.CodeGone, Message: "output was dropped while the connection was lost; start the program with a larger ring"}
	}
	stop := context.AfterFunc(ctx, detach)
	defer stop()
	refuse := func() {
		detach()
		_ = r.x.Signal(ctx, r.params.Spec.ID, "KILL") // it may have ended
	}
	if err := r.collect(a.streams, refuse); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	r.status, err = a.Wait(ctx)
	return err
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
