package cli_test

import (
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/cli/tty"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// child makes this program a vmhost: tests run it on a terminal of its own, whose
// signals come to it alone.
var child = flag.String("child", "", "run the arguments as a command line against the server at this `URL`, whose token is in the environment")

// childToken is the variable that has a child's token.
const childToken = "CLI_TEST_TOKEN"

func TestMain(m *testing.M) {
	flag.Parse()
	if *child == "" {
		os.Exit(m.Run())
	}
	cfg := cli.Config{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Address: *child, Token: os.Getenv(childToken)}
	if t, ok := tty.New(os.Stdin, os.Stdout); ok {
		cfg.Terminal = t
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, cfg, flag.Args()))
}

// seat is a user's end of a terminal on which a vmhost runs.
type seat struct {
	keys   *os.File // what is written is typed
	screen *output
	before unix.Termios
	done   chan struct{}
	cmd    *exec.Cmd
}

// sit starts a command line on a new terminal of 80 by 24 cells.
func sit(t *testing.T, url, token string, line ...string) *seat {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := pty.Setsize(master, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	st := &seat{keys: master, screen: newOutput(), done: make(chan struct{})}
	st.before = st.mode(t)
	st.cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{"-child", url, "--"}, line...)...)
	st.cmd.Env = append(os.Environ(), childToken+"="+token)
	st.cmd.Stdin, st.cmd.Stdout, st.cmd.Stderr = slave, slave, slave
	st.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := st.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Our own hold on the other end keeps the mode that the child leaves behind.
	t.Cleanup(func() { slave.Close() })
	go func() { // ends when the terminal is closed
		_, _ = io.Copy(st.screen, master)
	}()
	go func() {
		_ = st.cmd.Wait() // the exit code says it
		close(st.done)
	}()
	return st
}

// mode is how the terminal treats what is typed.
func (st *seat) mode(t *testing.T) unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(st.keys.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *mode
}

func (st *seat) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := io.WriteString(st.keys, keys); err != nil {
		t.Fatal(err)
	}
}

// left waits for the end of the command line and answers its exit status. The
// terminal is as it was found.
func (st *seat) left(t *testing.T) int {
	t.Helper()
	select {
	case <-st.done:
	case <-time.After(time.Minute):
		t.Fatalf("it goes on; the screen says %q", st.screen)
	}
	if diff := cmp.Diff(st.before, st.mode(t)); diff != "" {
		t.Errorf("the terminal was changed for good: %s", diff)
	}
	return st.cmd.ProcessState.ExitCode()
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestRealTerminal: vmhost exec -it on a terminal of the kernel's. Keys go to the
// program, Ctrl-C and Ctrl-Z among them, sizes follow, a link that breaks is
// survived, and the terminal is put back at the end.
func TestRealTerminal(t *testing.T) {
	s := desk(t)
	s.CutLinks(8)
	st := sit(t, s.URL, clienttest.Token, "exec", "-it", "first", "--", "bash")
	until(t, "a raw terminal", func() bool { return st.mode(t).Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) == 0 })
	st.press(t, "hello")
	st.screen.await(t, "hello")
	if sizes := s.Sizes("first"); sizes[0] != (api.Display{Width: 80, Height: 24}) {
		t.Errorf("it began with %v", sizes)
	}
	if err := pty.Setsize(st.keys, &pty.Winsize{Cols: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	until(t, "the new size", func() bool { return slices.Contains(s.Sizes("first"), api.Display{Width: 132, Height: 50}) })
	st.press(t, " and on") // the link breaks within it
	st.screen.await(t, "attached again\r\n")
	c, err := client.New(s.URL, client.WithToken(clienttest.Token))
	if err != nil {
		t.Fatal(err)
	}
	execs := c.Desktop("first").Execs()
	list, err := execs.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	st.press(t, "\x03\x1a\r")
	until(t, "control keys", func() bool { return strings.HasSuffix(s.Input("first", list[0].ID), " and on\x03\x1a\r") })
	if err := execs.Signal(t.Context(), list[0].ID, "TERM"); err != nil {
		t.Fatal(err)
	}
	if status := st.left(t); status != 143 {
		t.Errorf("status %d", status)
	}
	// A terminal that echoed itself would say each key twice.
	if n := strings.Count(st.screen.String(), "hello"); n != 1 {
		t.Errorf("the screen says %q", st.screen)
	}
}

// TestRealTerminalLeft: Ctrl-C leaves while the link is lost for good, and the
// terminal is put back; so it is when nothing can be started.
func TestRealTerminalLeft(t *testing.T) {
	s := desk(t)
	s.CutLinks(2)
	st := sit(t, s.URL, clienttest.Token, "exec", "-it", "first", "--", "bash")
	until(t, "an attached link", func() bool { return attached(s) })
	var away []*api.Error
	for range 1000 {
		away = append(away, &api.Error{Status: 502})
	}
	s.FailNext(away...)
	st.press(t, "hello")
	st.screen.await(t, "link lost")
	st.press(t, "\x03")
	if status := st.left(t); status != api.CodeCancelled.ExitStatus() {
		t.Errorf("status %d", status)
	}
	st.screen.await(t, "attach again with: vmhost exec --attach x")

	none := sit(t, desk(t).URL, clienttest.Token, "exec", "-it", "nobody", "--", "bash")
	if status := none.left(t); status != 4 {
		t.Errorf("status %d, the screen says %q", status, none.screen)
	}
}
