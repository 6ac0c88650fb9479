package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

func code(c guest.Code) error { return &guest.Error{Code: c} }

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func shell(line string) guest.ExecSpec { return guest.ExecSpec{Shell: line} }

func TestRun(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	tests := []struct {
		name     string
		spec     guest.ExecSpec
		stdin    string
		out, err string
		exit     int
		signal   string
	}{
		{name: "argv", spec: guest.ExecSpec{Argv: []string{"echo", "a  b", "$HOME"}}, out: "a  b $HOME\n"},
		{name: "shell", spec: shell("echo out; echo err >&2; exit 7"), out: "out\n", err: "err\n", exit: 7},
		{name: "stdin", spec: guest.ExecSpec{Argv: []string{"cat"}}, stdin: "hello", out: "hello"},
		{name: "no stdin", spec: guest.ExecSpec{Argv: []string{"cat"}}},
		{name: "dir", spec: guest.ExecSpec{Argv: []string{"pwd"}, Dir: "/usr"}, out: "/usr\n"},
		{name: "env", spec: guest.ExecSpec{Shell: "echo $A", Env: map[string]string{"A": "ü\n"}}, out: "ü\n"},
		{name: "signal", spec: shell("kill -TERM $$"), exit: 143, signal: "TERM"},
		{name: "terminal", spec: guest.ExecSpec{Shell: "tty >/dev/null && stty size", PTY: true, Cols: 101, Rows: 33}, out: "33 101\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in io.Reader
			if tt.stdin != "" {
				in = strings.NewReader(tt.stdin)
			}
			res, err := c.Exec.Run(soon(t), tt.spec, in)
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Stdout) != tt.out || string(res.Stderr) != tt.err {
				t.Errorf("output %q, %q; want %q, %q", res.Stdout, res.Stderr, tt.out, tt.err)
			}
			if res.Status.ExitCode != tt.exit || res.Status.Signal != tt.signal || res.Status.Running {
				t.Errorf("status %+v; want exit %d, signal %q", res.Status, tt.exit, tt.signal)
			}
		})
	}
}

func TestRunRefusals(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	for name, tt := range map[string]struct {
		spec guest.ExecSpec
		want guest.Code
	}{
		"nothing to run":  {guest.ExecSpec{}, guest.CodeInvalid},
		"both":            {guest.ExecSpec{Argv: []string{"a"}, Shell: "b"}, guest.CodeInvalid},
		"unknown program": {guest.ExecSpec{Argv: []string{"no-such-program"}}, guest.CodeNotFound},
		"unknown path":    {guest.ExecSpec{Argv: []string{"/no/such"}}, guest.CodeNotFound},
		"not executable":  {guest.ExecSpec{Argv: []string{"/etc/passwd"}}, guest.CodePermission},
		"unknown dir":     {guest.ExecSpec{Argv: []string{"true"}, Dir: "/no/such"}, guest.CodeNotFound},
		"dir is a file":   {guest.ExecSpec{Argv: []string{"true"}, Dir: "/etc/passwd"}, guest.CodeNotDir},
		"unknown user":    {guest.ExecSpec{Argv: []string{"true"}, User: "no-such-user"}, guest.CodeNotFound},
		"odd variable":    {guest.ExecSpec{Argv: []string{"true"}, Env: map[string]string{"A=B": "c"}}, guest.CodeInvalid},
		"huge request":    {guest.ExecSpec{Argv: []string{"true", strings.Repeat("x", 5<<20)}}, guest.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Exec.Run(soon(t), tt.spec, nil); !errors.Is(err, code(tt.want)) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	if res, err := c.Exec.Output(soon(t), guest.ExecSpec{Argv: []string{"echo", "still here"}}, nil); err != nil || string(res.Stdout) != "still here\n" {
		t.Errorf("after the refusals: %q, %v", res.Stdout, err)
	}
}

// noise is n bytes that depend on the seed alone.
func noise(seed uint64, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), n)
}

func TestLargeStdinAndOutput(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	const size = client.MaxOutput - 3
	want := sha256.New()
	if _, err := io.Copy(want, noise(1, size)); err != nil {
		t.Fatal(err)
	}
	res, err := c.Exec.Run(soon(t), guest.ExecSpec{Argv: []string{"cat"}}, noise(1, size))
	if err != nil {
		t.Fatal(err)
	}
	got := sha256.Sum256(res.Stdout)
	if len(res.Stdout) != size || !bytes.Equal(got[:], want.Sum(nil)) {
		t.Errorf("%d of %d bytes came back, or not the same", len(res.Stdout), size)
	}
	if res.Status.In != size || res.Status.Out != size {
		t.Errorf("status counts %d in, %d out", res.Status.In, res.Status.Out)
	}
}

func TestStartIsIdempotent(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	spec := guest.ExecSpec{ID: "once", Argv: []string{"cat"}, Stdin: true}
	first, err := c.Exec.Start(soon(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Exec.Start(soon(t), spec)
	if err != nil || second.PID != first.PID {
		t.Errorf("second start: pid %d, %v; want pid %d", second.PID, err, first.PID)
	}
	spec.Argv = []string{"tac"}
	if _, err := c.Exec.Start(soon(t), spec); !errors.Is(err, code(guest.CodeExists)) {
		t.Errorf("another command under the same id: %v", err)
	}
	if err := c.Exec.Remove(soon(t), "once"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec.Status(soon(t), "once"); !errors.Is(err, code(guest.CodeNotFound)) {
		t.Errorf("after removal: %v", err)
	}
}

func TestAttachInteractive(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	st, err := c.Exec.Start(soon(t), guest.ExecSpec{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	buf := make([]byte, 5)
	for _, word := range []string{"first", "again"} {
		fmt.Fprint(a.Stdin, word)
		if _, err := io.ReadFull(a.Stdout, buf); err != nil || string(buf) != word {
			t.Fatalf("echo %q, %v", buf, err)
		}
	}
	if err := a.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(a.Stdout); err != nil || len(rest) != 0 {
		t.Errorf("after half-close: %q, %v", rest, err)
	}
	end, err := a.Wait(soon(t))
	if err != nil || end.ExitCode != 0 || end.Running {
		t.Errorf("end %+v, %v", end, err)
	}
}

func TestTerminal(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	st, err := c.Exec.Start(soon(t), guest.ExecSpec{
		Shell: "echo ready; while read -r x; do stty size; echo got $x; done; echo end", PTY: true, Stdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	expect := expecter(t, a.Stdout)
	expect("ready")
	if err := a.Resize(soon(t), 99, 44); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(a.Stdin, "word\n")
	expect("44 99")
	expect("got word")
	if err := a.Stdin.Close(); err != nil { // end of file on a terminal
		t.Fatal(err)
	}
	expect("end")
	if end, err := a.Wait(soon(t)); err != nil || end.ExitCode != 0 {
		t.Errorf("end %+v, %v", end, err)
	}
}

// expecter returns a function that reads until a text has come.
func expecter(t *testing.T, r io.Reader) func(string) {
	t.Helper()
	var seen strings.Builder
	return func(text string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(seen.String(), text) {
			n, err := r.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				t.Fatalf("%q did not come: %v; had %q", text, err, seen.String())
			}
		}
		_, rest, _ := strings.Cut(seen.String(), text)
		seen.Reset()
		seen.WriteString(rest)
	}
}

func TestSignals(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	for name, tt := range map[string]struct {
		signal string
		exit   int
		want   string
	}{
		"caught": {"USR1", 9, ""},
		"term":   {"SIGTERM", 143, "TERM"},
		"kill":   {"KILL", 137, "KILL"},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := c.Exec.Start(soon(t), shell("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done"))
			if err != nil {
				t.Fatal(err)
			}
			a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer detach(t, a)
			expecter(t, a.Stdout)("ready")
			if err := a.Signal(soon(t), tt.signal); err != nil {
				t.Fatal(err)
			}
			end, err := a.Wait(soon(t))
			if err != nil || end.ExitCode != tt.exit || end.Signal != tt.want {
				t.Errorf("end %+v, %v", end, err)
			}
			if err := a.Signal(soon(t), "USR1"); !errors.Is(err, code(guest.CodeGone)) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
	if err := c.Exec.Signal(soon(t), "nobody", "TERM"); !errors.Is(err, code(guest.CodeNotFound)) {
		t.Errorf("signal to nobody: %v", err)
	}
}
