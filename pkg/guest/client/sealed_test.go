package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// sealed runs a program that is started sealed.
func sealed(t *testing.T, c *client.Client, spec guest.ExecSpec, s guest.Secrets) (st guest.ExecStatus, stdout, stderr string) {
	t.Helper()
	st, err := c.Exec.StartSealed(soon(t), spec, s)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	out := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(a.Stderr) // its end is the program's
		out <- b
	}()
	b, err := io.ReadAll(a.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	errs := <-out
	if st, err = a.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	return st, string(b), string(errs)
}

// TestSealedStart: the program gets its secrets, and guestd tells them nowhere.
func TestSealedStart(t *testing.T) {
	t.Parallel()
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	input := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	spec := guest.ExecSpec{ID: "mine", Dir: dir, Env: map[string]string{"PLAIN": "p", "OVER": "under"}, Argv: []string{
		"sh", "-c", `printf '%s,' "$0" "$1" "$PLAIN" "$OVER" "$TOKEN" "$PWD"; wc -c; test -n "$DESKFORK_EXEC" && test ! -e /proc/$$/fd/3 -a ! -e /proc/$$/fd/4 && echo closed; kill -TERM $$`, "a b", "",
	}}
	st, stdout, stderr := sealed(t, c, spec, guest.Secrets{
		Env: map[string]string{"TOKEN": "hush", "OVER": "over", "DESKFORK_EXEC": "x"}, Input: input, HasInput: true,
	})
	if want := "a b,,p,over,hush," + dir + ",2097152\nclosed\n"; stdout != want || st.Signal != "TERM" || st.Left {
		t.Errorf("%q, %q, %+v, want %q", stdout, stderr, st, want)
	}
	list, err := c.Exec.List(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(list); err != nil || bytes.Contains(text, []byte("hush")) || !bytes.Contains(text, []byte(`"sh"`)) {
		t.Errorf("%s, %v", text, err)
	}
	for what, tc := range map[string]struct {
		spec guest.ExecSpec
		s    guest.Secrets
		code int
		says string
	}{
		"no program": {guest.ExecSpec{Argv: []string{"no-such-program"}}, guest.Secrets{}, 127, "no-such-program"},
		"in its own path": {
			guest.ExecSpec{Argv: []string{"true"}}, guest.Secrets{Env: map[string]string{"PATH": dir}}, 127, "find program true in " + dir,
		},
		"shell": {guest.ExecSpec{Shell: "read x; exit $x"}, guest.Secrets{Input: []byte("3\n"), HasInput: true}, 3, ""},
		"empty": {guest.ExecSpec{Shell: "cat; exit 4"}, guest.Secrets{HasInput: true}, 4, ""},
		"none":  {guest.ExecSpec{Shell: "cat; exit 5"}, guest.Secrets{}, 5, ""},
	} {
		if st, _, stderr := sealed(t, c, tc.spec, tc.s); st.ExitCode != tc.code || !strings.Contains(stderr, tc.says) {
			t.Errorf("%s: %+v, %q", what, st, stderr)
		}
	}
}

// TestSealedStartIsRepeated: over lost connections it begins once; and without secrets
// it does not begin at all.
func TestSealedStartIsRepeated(t *testing.T) {
	t.Parallel()
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	spec, secrets := guest.ExecSpec{ID: "mine", Shell: "echo $A"}, guest.Secrets{Env: map[string]string{"A": "b"}}
	if _, err := c.Exec.StartSealed(soon(t), spec, secrets); err != nil {
		t.Fatal(err)
	}
	g.Cut()
	if st, stdout, _ := sealed(t, c, spec, secrets); stdout != "b\n" || st.ExitCode != 0 {
		t.Errorf("%q, %+v", stdout, st)
	}
	// What is too much is refused here, and the guest hears no more.
	spec = guest.ExecSpec{ID: "waits", Shell: "echo begun", Timeout: 700 * time.Millisecond}
	st, err := c.Exec.StartSealed(soon(t), spec, guest.Secrets{Input: make([]byte, guest.MaxSealed), HasInput: true})
	if err == nil || len(st.SealKey) == 0 || !st.Running {
		t.Fatalf("%+v, %v", st, err)
	}
	if st, err = c.Exec.Wait(soon(t), "waits"); err != nil || !st.TimedOut || st.Out != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	var gone *guest.Error
	if _, err := c.Exec.StartSealed(soon(t), guest.ExecSpec{ID: "waits", Shell: "echo begun"}, secrets); !errors.As(err, &gone) || gone.Code != guest.CodeGone {
		t.Errorf("secrets for what has ended: %v", err)
	}
}

// TestSealedProgramLeavesChildren: the status says so as long as they live.
func TestSealedProgramLeavesChildren(t *testing.T) {
	t.Parallel()
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	st, stdout, _ := sealed(t, c, guest.ExecSpec{ID: "mine", Shell: "sleep 302 >/dev/null 2>&1 & echo $!"}, guest.Secrets{Env: map[string]string{"A": "b"}})
	if !st.Left {
		t.Errorf("a child lives: %+v", st)
	}
	endBackground(t, c, []byte(stdout))
	for deadline := time.Now().Add(time.Minute); st.Left; {
		var err error
		if st, err = c.Exec.Status(soon(t), "mine"); err != nil || time.Now().After(deadline) {
			t.Fatalf("it is gone: %+v, %v", st, err)
		}
	}
}
