package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

// wire is an address whose connections a test may cut, and lead elsewhere.
type wire struct {
	URL string

	mu    sync.Mutex
	to    string // host:port
	conns []net.Conn
	sent  int64 // bytes to clients
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{URL: "http://" + l.Addr().String(), to: to}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.carry(t.Context(), c) })
		}
	})
	t.Cleanup(func() { l.Close(); w.lead(""); running.Wait() })
	return w
}

// carry joins a connection to one of its own, until either ends.
func (w *wire) carry(ctx context.Context, near net.Conn) {
	defer near.Close()
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	w.mu.Lock()
	w.conns = append(w.conns, near, far)
	cut := w.to != to
	w.mu.Unlock()
	if cut {
		return
	}
	var there sync.WaitGroup
	there.Go(func() { _, _ = io.Copy(far, near); far.Close() })
	_, _ = io.Copy(near, io.TeeReader(far, w))
	near.Close()
	there.Wait()
}

// Write counts what goes to clients.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent += int64(len(p))
	return len(p), nil
}

// lead cuts all connections; new ones go to the address, and fail without one.
func (w *wire) lead(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// cut cuts all connections when n further bytes have gone to clients.
func (w *wire) cut(t *testing.T, n int64) {
	t.Helper()
	now := func() int64 { w.mu.Lock(); defer w.mu.Unlock(); return w.sent }
	from := now()
	until(t, "bytes on the wire", func() bool { return now() >= from+n })
	w.lead(w.to)
}

// notices are what the command line itself says on a terminal.
var notices = regexp.MustCompile(`(\r\nvmhost: link lost \(.*?\); attaching again to \w+\r\n)|(vmhost: attached again\r\n)`)

// wrote waits for the last of many lines on the screen and checks those before it.
func (st *seat) wrote(t *testing.T, lines, last string) {
	t.Helper()
	st.screen.await(t, last+"\r\n")
	said, _, _ := strings.Cut(notices.ReplaceAllString(st.screen.String(), ""), last)
	if diff := cmp.Diff(lines, said[max(0, len(said)-len(lines)):]); diff != "" {
		t.Errorf("before %s (-want +got)\n%s", last, diff)
	}
}

// bash sits down at a shell in a desktop of the shop, which is reached by a wire.
func (s *shop) bash(t *testing.T, d api.Desktop) (*seat, *wire) {
	t.Helper()
	token, err := os.ReadFile(s.token)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, strings.TrimPrefix(s.url, "http://"))
	st := sit(t, w.URL, strings.TrimSpace(string(token)), "exec", "-it", d.ID, "--", "bash", "--norc", "--noprofile", "--noediting")
	until(t, "a raw terminal", func() bool { return st.mode(t).Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) == 0 })
	st.press(t, "PS1=; stty -echo; echo ready-$((1+1))\r")
	st.screen.await(t, "ready-2")
	return st, w
}

// numbered are n lines as a terminal shows them.
func numbered(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s-%d\r\n", word, i+1)
	}
	return b.String()
}

// TestTerminalOfAGuest: a shell of a real guestd, through a real server, on a
// terminal of the kernel's. Links that break and a daemon that starts again lose
// no byte of what is written or typed, and double none.
func TestTerminalOfAGuest(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	st, w := s.bash(t, s.Create(api.CreateDesktop{}))
	st.press(t, "stty size; tty >/dev/null && echo tty-$((3+4))\r")
	st.screen.await(t, "24 80\r\ntty-7")
	if err := pty.Setsize(st.keys, &pty.Winsize{Cols: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	st.press(t, "until [ \"$(stty size)\" = '50 132' ]; do sleep 0.1; done; sh -c 'echo sleeps-$((2+2)); exec sleep 1000'\r")
	st.screen.await(t, "sleeps-4")
	st.press(t, "\x03")
	st.press(t, "echo status-$?\r")
	st.screen.await(t, "status-130")

	st.press(t, "for i in {1..2000}; do echo out-$i; ((i % 200)) || sleep 0.02; done; echo written-$((4+4))\r")
	for _, n := range []int64{1, 5000, 9000} {
		w.cut(t, n)
	}
	st.wrote(t, "\n"+numbered("out", 2000), "written-8")

	st.press(t, "while read -r l; do echo got-$l; [ $l = 200 ] && break; done; echo read-$((5+5))\r")
	for i := range 200 {
		st.press(t, fmt.Sprintf("%d\r", i+1))
		switch i {
		case 30, 150:
			w.lead(w.to)
		case 90:
			w.lead("") // nobody is there, until the daemon is again
			s.Stop()
			s.Start()
			w.lead(s.serve(t))
		}
	}
	st.wrote(t, "\n"+numbered("got", 200), "read-10")
	st.press(t, "exit 7\r")
	if status := st.left(t); status != 7 {
		t.Errorf("status %d; the screen says %q", status, st.screen)
	}
}

// TestTerminalEnded: the terminal is put back when the command line is ended from
// outside, and when the desktop is.
func TestTerminalEnded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for name, tc := range map[string]struct {
		end  func(t *testing.T, st *seat, desktop string)
		code []api.Code // one of them
		says string
	}{
		"SIGTERM": {func(t *testing.T, st *seat, _ string) {
			t.Helper()
			if err := st.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}, []api.Code{api.CodeCancelled}, "attach again with: vmhost exec --attach "},
		"desktop deleted": {func(t *testing.T, _ *seat, desktop string) {
			t.Helper()
			if err := s.Host.Delete(t.Context(), hosttest.Project, desktop); err != nil {
				t.Fatal(err)
			}
		}, []api.Code{api.CodeNotFound, api.CodeConflict}, "vmhost: "},
		"machine crashed": {func(_ *testing.T, _ *seat, desktop string) {
			s.Machine(desktop).End(errors.New("qemu: killed"))
		}, []api.Code{api.CodeConflict}, "vmhost: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := s.Create(api.CreateDesktop{})
			st, _ := s.bash(t, d)
			tc.end(t, st, d.ID)
			status := st.left(t)
			if !slices.ContainsFunc(tc.code, func(c api.Code) bool { return c.ExitStatus() == status }) {
				t.Errorf("status %d, want that of %v; the screen says %q", status, tc.code, st.screen)
			}
			st.screen.await(t, tc.says)
		})
	}
}
