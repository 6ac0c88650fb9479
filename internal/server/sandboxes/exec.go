package sandboxes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// maxExec bounds a program with its arguments, in bytes.
const maxExec = 4 << 20

type execIn struct {
	InSandbox

	Key  string `header:"Idempotency-Key" maxLength:"256" doc:"Makes the call repeatable for ten minutes: the program starts once"`
	Body api.SandboxExec
}

func (d *door) registerExec() {
	route.Call(d.routes, huma.Operation{
		OperationID: "exec-in-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{sandbox}/exec", Tags: tags,
		Summary:     "Run a program and wait for its end",
		Description: "An exit code other than 0 is no error. A caller that goes away ends the program, unless it gave a key.",
	}, write.Long().Size(maxExec), d.exec)
}

func (d *door) exec(ctx context.Context, in *execIn) (*route.Reply[api.SandboxRan], error) {
	b := in.Body
	if (len(b.Argv) > 0) == (b.Command != "") {
		return nil, api.Errorf(api.CodeInvalid, "want either command or argv")
	}
	l, err := d.desk.Use(ctx, in.by(ctx), in.Sandbox)
	if err != nil {
		return nil, err
	}
	s := guest.ExecSpec{
		Argv: b.Argv, Shell: b.Command, Dir: b.Cwd, Env: b.Env, Timeout: time.Duration(b.TimeoutMS) * time.Millisecond,
		KillOnDetach: in.Key == "",
	}
	if in.Key != "" {
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte(in.Key+"\n"), text...))
		s.ID = guest.ExecID("key-" + hex.EncodeToString(sum[:12]))
	}
	ran, err := l.Execs.Run(ctx, s, nil)
	// A program that cannot be started has an exit status in every shell.
	if code, ok := notRun(err); ok {
		return &route.Reply[api.SandboxRan]{Body: api.SandboxRan{Stdout: []byte{}, Stderr: []byte(err.Error() + "\n"), ExitCode: code}}, nil
	}
	if err != nil {
		return nil, err
	}
	return &route.Reply[api.SandboxRan]{Body: api.SandboxRan{
		Stdout: some(ran.Stdout), Stderr: some(ran.Stderr), ExitCode: ran.Status.ExitCode, Signal: signalName(ran.Status.Signal),
		TimedOut: ran.Status.TimedOut, Truncated: ran.Truncated,
	}}, nil
}

// notRun is a shell's exit status for a program that is not there, or is none.
func notRun(err error) (int, bool) {
	e, ok := errors.AsType[*guest.Error](err)
	switch {
	case ok && e.Code == guest.CodeNotFound:
		return 127, true
	case ok && e.Code == guest.CodePermission:
		return 126, true
	}
	return 0, false
}

// some is never nil, so that JSON says "" rather than null.
func some(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func signalName(s string) string {
	if s == "" {
		return ""
	}
	return "SIG" + s
}
