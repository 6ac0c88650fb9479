//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func TestExecOneShot(t *testing.T) {
	d := lend(t)
	tests := []struct {
		name string
		spec api.Exec
		out  string
		err  string
		code int
	}{
		{name: "argv", spec: api.Exec{Argv: []string{"printf", "%s|%s", "a b", "ü"}}, out: "a b|ü"},
		{name: "shell and exit code", spec: api.Exec{Shell: "echo out; echo err >&2; exit 7"}, out: "out\n", err: "err\n", code: 7},
		{name: "directory", spec: api.Exec{Argv: []string{"pwd"}, Dir: "/usr/share"}, out: "/usr/share\n"},
		{name: "environment", spec: api.Exec{Shell: `printf %s "$GREETING/$DESKFORK_E2E"`, Env: map[string]string{"GREETING": "hei"}}, out: "hei/from create"},
		{name: "default user", spec: api.Exec{Shell: "id -un; echo $HOME"}, out: "agent\n/home/agent\n"},
		{name: "root", spec: api.Exec{Shell: "id -un", User: "root"}, out: "root\n"},
		{name: "input", spec: api.Exec{Argv: []string{"tr", "a-z", "A-Z"}, Input: []byte("shout")}, out: "SHOUT"},
		{name: "bytes that are no text", spec: api.Exec{Shell: `printf '\000\377\200\n'`}, out: "\x00\xff\x80\n"},
		{name: "ended by a signal", spec: api.Exec{Shell: "kill -TERM $$"}, code: 128 + 15},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := d.Execs().Run(t.Context(), tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{string(res.Stdout), string(res.Stderr), fmt.Sprint(res.ExitCode)}
			if diff := cmp.Diff([]string{tt.out, tt.err, fmt.Sprint(tt.code)}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestExecNotFound(t *testing.T) {
	d := lend(t)
	_, err := d.Exec(t.Context(), "/no/such/program")
	code(t, err, api.CodeNotFound)
}

// TestExecDeadline kills the whole process group, grandchildren included.
func TestExecDeadline(t *testing.T) {
	d := lend(t)
	begin := time.Now()
	res, err := d.Execs().Run(t.Context(), api.Exec{Shell: "sleep 987 & sleep 986; true", TimeoutMS: 1500})
	if err != nil {
		t.Fatal(err)
	}
	if !res.TimedOut || res.Signal != "KILL" {
		t.Errorf("status = %+v, want timed out and killed", res.ExecStatus)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	if left := d.shell(t, "pgrep -f 'sleep 98[67]'"); left.ExitCode == 0 {
		t.Errorf("processes left: %s", left.Stdout)
	}
}

// TestExecStreamsExactly sends 32 MiB through a program and back, with
// back-pressure on both sides.
func TestExecStreamsExactly(t *testing.T) {
	d := lend(t)
	const size = 32 << 20
	want, got := sha256.New(), sha256.New()
	status, err := d.Execs().Command(t.Context(), api.Exec{Argv: []string{"cat"}, Stdin: true}, client.Streams{
		Stdin:  io.TeeReader(io.LimitReader(&pattern{}, size), want),
		Stdout: got,
	})
	if err != nil {
		t.Fatal(err)
	}
	if status.ExitCode != 0 || status.Out != size {
		t.Errorf("status = %+v", status)
	}
	if !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		t.Error("what came back differs")
	}
}

// pattern is an endless stream without a short period.
type pattern struct{ n uint64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		p.n = p.n*6364136223846793005 + 1442695040888963407
		b[i] = byte(p.n >> 56)
	}
	return len(b), nil
}

func TestExecPTY(t *testing.T) {
	d := lend(t)
	pr, pw := io.Pipe()
	resize := make(chan client.Size, 1)
	var out syncBuffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		status, err := d.Execs().Command(ctx, api.Exec{Argv: []string{"bash", "--norc"}, PTY: true, Stdin: true, Cols: 80, Rows: 24},
			client.Streams{Stdin: pr, Stdout: &out, Resize: resize})
		if err == nil && status.ExitCode != 3 {
			err = fmt.Errorf("exit code %d, want 3", status.ExitCode)
		}
		done <- err
	}()
	say := func(line string) { _, _ = io.WriteString(pw, line+"\n") }
	expect := func(what string) {
		t.Helper()
		d.until(t, time.Minute, fmt.Sprintf("output %q", what), func(context.Context) error {
			if !strings.Contains(out.String(), what) {
				return fmt.Errorf("have %q", out.String())
			}
			return nil
		})
	}
	say("stty size; test -t 0 && echo is-a-$((1+1))-tty")
	expect("24 80")
	expect("is-a-2-tty")
	resize <- client.Size{Cols: 101, Rows: 33}
	d.until(t, time.Minute, "new size", func(context.Context) error {
		say("stty size")
		if !strings.Contains(out.String(), "33 101") {
			return errors.New(out.String())
		}
		return nil
	})
	say("exit 3")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestExecAttachAgain leaves a program alone, comes back by id, and misses
// nothing and sees nothing twice.
func TestExecAttachAgain(t *testing.T) {
	d := lend(t)
	st, err := d.Execs().Start(t.Context(), api.Exec{Shell: "for i in $(seq 1 200); do echo line $i; sleep 0.02; done"})
	if err != nil {
		t.Fatal(err)
	}
	var want, got strings.Builder
	for i := range 200 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	_, err = d.Execs().Attach(short, st.ID, client.Streams{Stdout: &got})
	cancel()
	if err == nil {
		t.Fatal("the first attach saw the end; it was meant to be cut")
	}
	first := got.Len()
	end, err := d.Execs().Attach(t.Context(), st.ID, client.Streams{Stdout: &got, OutFrom: int64(first)})
	if err != nil {
		t.Fatal(err)
	}
	if end.ExitCode != 0 || first == 0 || first == want.Len() {
		t.Errorf("exit %d, cut at %d of %d", end.ExitCode, first, want.Len())
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := d.Execs().Forget(t.Context(), st.ID); err != nil {
		t.Error(err)
	}
}

func TestExecSignal(t *testing.T) {
	d := lend(t)
	st, err := d.Execs().Start(t.Context(), api.Exec{Shell: `trap 'echo caught; exit 9' USR1; echo ready; while :; do sleep 0.1; done`})
	if err != nil {
		t.Fatal(err)
	}
	var out syncBuffer
	done := make(chan api.ExecStatus, 1)
	go func() {
		end, err := d.Execs().Attach(t.Context(), st.ID, client.Streams{Stdout: &out})
		if err != nil {
			t.Error(err)
		}
		done <- end
	}()
	d.until(t, time.Minute, "ready", func(context.Context) error {
		if !strings.Contains(out.String(), "ready") {
			return errors.New(out.String())
		}
		return nil
	})
	if err := d.Execs().Signal(t.Context(), st.ID, "USR1"); err != nil {
		t.Fatal(err)
	}
	if end := <-done; end.ExitCode != 9 || !strings.Contains(out.String(), "caught") {
		t.Errorf("status %+v, output %q", end, out.String())
	}
}

// TestExecIsIdempotentByID starts nothing twice.
func TestExecIsIdempotentByID(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	spec := api.Exec{ID: "once", Shell: "echo x >> " + dir + "/count"}
	for range 3 {
		st, err := d.Execs().Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Execs().Attach(t.Context(), st.ID, client.Streams{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.get(t, dir+"/count"); got != "x\n" {
		t.Errorf("ran %d times", strings.Count(got, "x"))
	}
}
