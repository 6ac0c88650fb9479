package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/runner"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Times of the end of an exec whose output a background child holds open.
const (
	quiet    = 200 * time.Millisecond // without output: it is over
	chatter  = 2 * time.Second        // of output after the end: it is over
	pumpSize = 32 << 10
)

// Exec is one program, running or ended.
type Exec struct {
	spec    guest.ExecSpec
	tag     string // in the environment of all its processes
	process *os.Process
	handle  *os.File // of the process: readable when it has ended; nil where there is none
	shield  *account.Shield
	fixed   bool // see Config.FixedAddresses
	out     *ring
	err     *ring
	tty     *os.File // master side; nil without one
	done    chan struct{}
	left    int64 // bytes of output at the end; guarded by the table

	timer   *time.Timer // of the deadline; nil without one
	awaited *time.Timer // ends the waiting for a client
	pumps   []*pump

	mu       sync.Mutex
	status   guest.ExecStatus
	group    *cgroup // nil where there is none, and when nothing is left in it
	reaped   bool    // the main process is gone: its id may be another's
	gone     bool    // and so are all that it started
	attached int

	stdin stdin
	seal  *runner.Seal // of a sealed start; else nil
}

// Status is a snapshot.
func (e *Exec) Status() guest.ExecStatus {
	e.mu.Lock()
	st := e.status
	st.Attached = e.attached
	e.mu.Unlock()
	st.OutKept, st.Out = e.out.span()
	st.ErrKept, st.Err = e.err.span()
	st.In = e.stdin.count()
	if e.seal != nil {
		st.SealKey, st.Left = e.seal.Key, e.leaves()
	}
	return st
}

// Wait returns the final status.
func (e *Exec) Wait(ctx context.Context) (guest.ExecStatus, error) {
	select {
	case <-e.done:
		return e.Status(), nil
	case <-ctx.Done():
		return guest.ExecStatus{}, context.Cause(ctx)
	}
}

// run waits for the program's end; it is the goroutine that owns it. over is
// called before the end is told.
func (e *Exec) run(over func(*Exec)) {
	var reading sync.WaitGroup
	for _, p := range e.pumps {
		reading.Go(p.run)
	}
	e.awaitEnd()
	// How it ended is in the process state; an error says no more.
	state, _ := e.process.Wait()
	e.mu.Lock()
	e.reaped = true
	e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
	for _, p := range e.pumps {
		p.ended()
	}
	for _, p := range e.pumps {
		<-p.over
	}
	e.awaited.Stop()
	e.stdin.close()
	e.seal.Close()
	e.mu.Lock()
	e.status.Running = false
	e.status.Ended = time.Now()
	e.status.ExitCode, e.status.Signal = exitOf(state)
	e.mu.Unlock()
	over(e)
	close(e.done)
	reading.Wait() // background children may hold the output for long
}

// expectNobody is called when no client has attached in time.
func (e *Exec) expectNobody() {
	e.mu.Lock()
	alone := e.attached == 0
	e.mu.Unlock()
	if e.spec.DetachGrace > 0 {
		if !alone {
			return
		}
		e.end()
	}
	e.out.expectNobody()
	e.err.expectNobody()
}

// expire is called at the deadline.
func (e *Exec) expire() {
	e.mu.Lock()
	late := !e.reaped
	e.status.TimedOut = e.status.TimedOut || late
	e.mu.Unlock()
	if late {
		e.Kill()
	}
}

// Kill ends every process that the exec has started.
func (e *Exec) Kill() {
	e.mu.Lock()
	// Within mu: the group is another's as soon as the exec has left it.
	killed := e.gone || e.group.kill()
	leader := e.process
	if e.reaped {
		leader = nil
	}
	e.mu.Unlock()
	if !killed {
		killTree(leader, e.tag)
	}
}

// leave gives the control group of an ended exec back. While background
// processes live in it, it stays the exec's, so that it can kill them.
func (e *Exec) leave() (g *cgroup, empty bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g, empty = e.group, e.group.empty(); empty {
		e.group, e.gone = nil, true
	}
	return g, empty
}

// Signal sends a signal by name to the process group; KILL goes to all.
func (e *Exec) Signal(name string) error {
	sig, err := signalOf(name)
	if err != nil {
		return err
	}
	if isKill(sig) {
		e.Kill()
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock() // the process id stays ours while it is not reaped
	if e.reaped {
		return &guest.Error{Code: guest.CodeGone, Message: fmt.Sprintf("exec %s has ended", e.spec.ID)}
	}
	return signalGroup(e.process, sig)
}

// Resize sets the terminal's size.
func (e *Exec) Resize(cols, rows uint16) error {
	if e.tty == nil {
		return &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("exec %s has no terminal", e.spec.ID)}
	}
	return resize(e.tty, cols, rows)
}

func (e *Exec) attach(by int) {
	e.mu.Lock()
	e.attached += by
	last := e.attached == 0 && by < 0
	e.mu.Unlock()
	switch {
	case !last || !e.spec.KillOnDetach:
	case e.spec.DetachGrace > 0:
		e.awaited.Reset(e.spec.DetachGrace)
	default:
		e.end()
	}
}

// end kills the exec if its main program still runs. What an ended one has left
// in the background is no longer its own: a shell that starts a server and
// returns means the server to stay.
func (e *Exec) end() {
	e.mu.Lock()
	runs := !e.reaped
	e.mu.Unlock()
	if runs {
		e.Kill()
	}
}

// kept is how many bytes of output the exec holds.
func (e *Exec) kept() int64 {
	a, b := e.out.span()
	c, d := e.err.span()
	return b - a + d - c
}

// pump moves one output from the program into its ring.
type pump struct {
	from *os.File
	to   *ring
	over chan struct{} // closed when the output counts as over

	mu       sync.Mutex
	exited   time.Time // when the main process ended
	leftover int64     // bytes that were waiting then and will be read
}

func newPump(from *os.File, to *ring) *pump {
	return &pump{from: from, to: to, over: make(chan struct{})}
}

// ended tells the pump that the main process is gone.
func (p *pump) ended() {
	p.mu.Lock()
	p.exited = time.Now()
	p.leftover = waiting(p.from)
	p.mu.Unlock()
	// Where deadlines are not supported the output ends at its end only.
	_ = p.from.SetReadDeadline(time.Now().Add(quiet))
}

func (p *pump) run() {
	defer p.from.Close()
	held := p.copy()
	p.to.finish()
	close(p.over)
	if held {
		_ = p.from.SetReadDeadline(time.Time{})
		// A background child goes on writing; nobody wants it.
		_, _ = io.Copy(io.Discard, p.from)
	}
}

// copy returns when the output is over, and whether somebody still holds it.
func (p *pump) copy() (held bool) {
	buf := make([]byte, pumpSize)
	waited := false
	for {
		n, err := p.from.Read(buf)
		p.to.write(buf[:n])
		switch {
		case n > 0:
			waited = false
			if p.chattered(int64(n)) {
				return true
			}
		case errors.Is(err, os.ErrDeadlineExceeded) && waited:
			return true
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The deadline may have passed while the ring was full, with
			// output waiting: only a whole quiet time without any counts.
			waited = true
			_ = p.from.SetReadDeadline(time.Now().Add(quiet))
		case err != nil:
			return false
		}
	}
}

func (p *pump) chattered(n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited.IsZero() {
		return false
	}
	p.leftover -= n
	return p.leftover < 0 && time.Since(p.exited) > chatter
}
