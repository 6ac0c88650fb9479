package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/relay"
	"github.com/deskfork/deskfork/internal/server/sandboxes/duplex"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Times of a process without a connection, and of its removal.
const (
	defaultGrace = time.Minute
	maxGrace     = 10 * time.Minute
	removeLimit  = 10 * time.Second
)

// keep is how much output the guest keeps for a client that comes again, in bytes of
// each stream: more than what may be unconfirmed.
const keep = 4 * duplex.Window

// idPrefix sets processes apart from other programs of the guest.
const idPrefix = "proc-"

func (d *door) registerProcesses() {
	d.routes.Stream(huma.Operation{
		OperationID: "sandbox-processes", Method: http.MethodGet, Path: "/v1/sandboxes/{sandbox}/processes", Tags: tags,
		Summary: "Start a process and talk with it, or attach to it again (WebSocket " + api.SubprotocolProcess + ")",
		Description: "Text messages are ProcessMessage; the first is spawn or attach. Binary messages are a channel byte (0 stdin, 1 stdout, 2 stderr), " +
			"the offset of the first byte in 8 bytes, the highest first, and bytes. Each end acknowledges what it has consumed, and the other is never " +
			"further ahead than the window. A process that loses its connection waits for another during its grace, and loses nothing meanwhile; then it is killed. " +
			"Of one that is attached to twice the later one counts.",
		Parameters: append(spec.Path("sandbox"), spec.Header(api.HeaderGeneration, "Under which the call is made")),
		Responses:  spec.Switching(),
	}, write.Long(), d.process)
}

func (d *door) process(w http.ResponseWriter, r *http.Request) error {
	by, err := callerOf(r)
	if err != nil {
		return err
	}
	l, err := d.desk.Use(r.Context(), by, r.PathValue("sandbox"))
	if err != nil {
		return err
	}
	if err := stream.Wanted(r); err != nil {
		return err
	}
	ctx, lost := context.WithCancelCause(r.Context())
	defer lost(nil)
	ws, err := stream.Upgrade(w, r, api.SubprotocolProcess, d.beat, func() { lost(nil) })
	if err != nil {
		return api.Errorf(api.CodeInvalid, "%s", err)
	}
	err = d.talk(ctx, lost, ws, l.Execs, by.Project+"\n"+r.PathValue("sandbox"))
	if err != nil {
		gate.Note(r, relay.Fault(err))
	}
	return nil
}

// talk serves one WebSocket and closes it. The error is for the log: the client was
// told.
func (d *door) talk(ctx context.Context, lost context.CancelCauseFunc, ws *stream.Socket, execs live.Execs, where string) error {
	m, err := first(ws)
	if err == nil {
		m, err = begin(ctx, execs, m)
	}
	if err != nil {
		return duplex.Refuse(ws, err)
	}
	defer d.open.enter(where+"\n"+m.ID, lost)()
	id := guest.ExecID(idPrefix + m.ID)
	a, err := execs.Attach(ctx, guest.ExecAttachParams{ID: id, OutFrom: m.Stdout, ErrFrom: m.Stderr, Stdin: true, Lag: duplex.Window})
	if err != nil {
		return duplex.Refuse(ws, err)
	}
	ended, err := duplex.Run(ctx, ws, a, execs, duplex.Wanted{Stdout: m.Stdout, Stderr: m.Stderr})
	if ended {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		_ = execs.Remove(ctx, id) // else the guest forgets it after a while
	}
	return err
}

// first reads the message that every conversation begins with.
func first(ws *stream.Socket) (api.ProcessMessage, error) {
	in, err := ws.Next()
	if err != nil {
		return api.ProcessMessage{}, err
	}
	if in.Text == nil {
		return api.ProcessMessage{}, fmt.Errorf("%w: want spawn or attach first", stream.ErrProtocol)
	}
	return duplex.ParseMessage(in.Text)
}

var idRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })

// begin starts a process, unless the client attaches to one.
func begin(ctx context.Context, execs live.Execs, m api.ProcessMessage) (api.ProcessMessage, error) {
	if !idRE().MatchString(m.ID) {
		return m, api.Errorf(api.CodeInvalid, "id: want 1 to 64 of A-Z, a-z, 0-9, _ and -, chosen by the client")
	}
	switch m.Type {
	case "attach":
		return m, nil
	case "spawn":
	default:
		return m, fmt.Errorf("%w: want spawn or attach first", stream.ErrProtocol)
	}
	if m.Command == "" {
		return m, api.Errorf(api.CodeInvalid, "command: required")
	}
	m.Stdout, m.Stderr = 0, 0
	grace := cmp.Or(time.Duration(m.GraceMS)*time.Millisecond, defaultGrace)
	return m, start(ctx, execs, guest.ExecSpec{
		ID: guest.ExecID(idPrefix + m.ID), Argv: append([]string{m.Command}, m.Args...), Dir: m.Cwd, PTY: m.TTY, Stdin: true,
		Ring: keep, KillOnDetach: true, DetachGrace: min(grace, maxGrace),
	}, m.Env)
}

// start starts a process. Its environment is a secret: nothing in the guest knows it
// but the process.
func start(ctx context.Context, execs live.Execs, spec guest.ExecSpec, env map[string]string) (err error) {
	if len(env) == 0 {
		_, err = execs.Start(ctx, spec)
		return err
	}
	sealer, ok := execs.(live.Sealer)
	if !ok {
		return api.Errorf(api.CodeUnsupported, "this machine's guest cannot keep the environment of a process to it")
	}
	_, err = sealer.StartSealed(ctx, spec, guest.Secrets{Env: env})
	return err
}

// errReplaced ends a connection whose client has come again.
var errReplaced = errors.New("another connection has this process now")

// sockets are the connections to processes, by process: one at a time.
type sockets struct {
	mu sync.Mutex
	by map[string]*seat // guarded by mu
}

type seat struct{ leave context.CancelCauseFunc }

// enter takes the place of whoever has it: a connection that broke unnoticed would
// hold the process up.
func (s *sockets) enter(key string, leave context.CancelCauseFunc) (out func()) {
	mine := &seat{leave}
	s.mu.Lock()
	if s.by == nil {
		s.by = map[string]*seat{}
	}
	former := s.by[key]
	s.by[key] = mine
	s.mu.Unlock()
	if former != nil {
		former.leave(fmt.Errorf("%w: %w", errReplaced, api.Errorf(api.CodeConflict, "%s", errReplaced)))
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.by[key] == mine {
			delete(s.by, key)
		}
	}
}
