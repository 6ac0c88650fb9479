//go:build integration

package guesthelper_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// These tests need: xvfb xterm xfce4-terminal xfwm4 mousepad xclip xinput
// xdotool x11-xserver-utils x11-xkb-utils x11-utils
// python3-gi gir1.2-gtk-3.0 dbus-daemon chromium, and a Go toolchain.

// beside is how many tests run at a time: more than there are cores, because
// they wait for programs to read their events.
const beside = 6

// helperPath is the helper under test, built by TestMain with the tags of the
// test and the race detector.
var helperPath string

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(beside)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "guesthelper")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	helperPath = filepath.Join(dir, "guest-helper")
	cmd := exec.Command("go", "build", "-race", "-tags", buildTags, "-o", helperPath, "../../cmd/guesthelper")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	code := 1
	if err := cmd.Run(); err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// spawn starts a program that ends with the test.
func spawn(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v (see the packages listed in harness_test.go)", cmd.Path, err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
}

// eventually polls until ok. The limit is only for what never comes: tests run
// beside others on a host that is busy.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

type xserver struct {
	name string // DISPLAY
	cmd  *exec.Cmd
	home string
}

// startX starts an X server of its own and an empty home. The test runs beside
// others: it shares nothing with them, and waits most of the time.
func startX(t *testing.T, args ...string) *xserver {
	t.Helper()
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("Xvfb", append([]string{"-displayfd", "3", "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset"}, args...)...)
	cmd.ExtraFiles = []*os.File{w}
	spawn(t, cmd)
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("start Xvfb: %v", err)
	}
	x := &xserver{name: ":" + strings.TrimSpace(line), cmd: cmd, home: t.TempDir()}
	t.Cleanup(func() { x.endAll(t) })
	return x
}

// endAll ends every program of the session, those too that the helper started and
// that outlive it, and removes the home. Not each of them says whose it is: a
// browser's children write their titles over their environment. They end with it,
// but a moment later, and may write until then.
func (x *xserver) endAll(t *testing.T) {
	t.Helper()
	home := []byte("HOME=" + x.home + "\x00")
	eventually(t, "the end of all programs", func() bool {
		left := false
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range files {
			env, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(env, home) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				left = syscall.Kill(pid, syscall.SIGKILL) == nil || left
			}
		}
		return !left && os.RemoveAll(x.home) == nil
	})
}

func (x *xserver) env() []string {
	env := []string{
		"DISPLAY=" + x.name, "HOME=" + x.home, "LC_ALL=C.UTF-8", "XAUTHORITY=" + x.home + "/none",
		"NO_AT_BRIDGE=1", "GTK_IM_MODULE=gtk-im-context-simple", "XDG_RUNTIME_DIR=" + x.home, "GDK_BACKEND=x11",
		"XDG_CONFIG_HOME=" + x.home + "/.config", "GSETTINGS_BACKEND=memory", "DBUS_SESSION_BUS_ADDRESS=unix:path=" + x.home + "/bus",
	}
	// The race detector sleeps for a second at the end of a program.
	return append(env, "GORACE=atexit_sleep_ms=0", "PATH="+os.Getenv("PATH"))
}

// run starts a program of the session.
func (x *xserver) run(t *testing.T, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = x.env()
	cmd.Dir = x.home
	spawn(t, cmd)
	return cmd
}

// output runs a program of the session to its end.
func (x *xserver) output(t *testing.T, in []byte, argv ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin = x.env(), bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return out
}

// peer is guestd's end of a helper.
type peer struct {
	t     *testing.T
	conn  *guest.HelperConn
	cmd   *exec.Cmd
	stdin io.Closer
	hello guest.HelperHello
	ended chan struct{} // closed when the helper has gone

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan guest.HelperMessage
	log     bytes.Buffer
}

func (p *peer) Write(b []byte) (int, error) { // the helper's log
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *peer) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func startHelper(t *testing.T, x *xserver) *peer {
	t.Helper()
	p := &peer{t: t, waiting: map[uint64]chan guest.HelperMessage{0: make(chan guest.HelperMessage, 64)}, ended: make(chan struct{})}
	p.cmd = exec.Command(helperPath, "-v", "-wait", "60s")
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = x.env(), x.home, p
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = in
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.conn = guest.NewHelperConn(out, in)
	m, err := p.conn.Read()
	if err != nil {
		t.Fatalf("read hello: %v", err)
	}
	if err := json.Unmarshal(m.Result, &p.hello); err != nil {
		t.Fatal(err)
	}
	go p.read()
	t.Cleanup(func() {
		p.stdin.Close()
		select {
		case <-p.ended:
		case <-time.After(time.Minute):
			t.Error("the helper did not end after its input was closed")
			_ = p.cmd.Process.Kill()
		}
		if log := p.logged(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
			t.Errorf("the helper's log:\n%s", log)
		} else if t.Failed() {
			t.Logf("the helper's log:\n%s", log)
		}
	})
	return p
}

func (p *peer) read() {
	defer close(p.ended)
	for {
		m, err := p.conn.Read()
		if err != nil {
			break
		}
		p.mu.Lock()
		ch := p.waiting[m.ID]
		if m.ID != 0 { // what is told unasked is told again
			delete(p.waiting, m.ID)
		}
		p.mu.Unlock()
		if ch != nil {
			ch <- m
		}
	}
	_ = p.cmd.Wait()
}

func (p *peer) send(op string, params any, bin []byte, timeout time.Duration) (uint64, <-chan guest.HelperMessage) {
	p.t.Helper()
	m := guest.HelperMessage{Op: op, Binary: bin, Timeout: timeout}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			p.t.Fatal(err)
		}
		m.Params = raw
	}
	ch := make(chan guest.HelperMessage, 1)
	p.mu.Lock()
	p.next++
	m.ID = p.next
	p.waiting[m.ID] = ch
	p.mu.Unlock()
	if err := p.conn.Write(m); err != nil {
		p.t.Fatal(err)
	}
	return m.ID, ch
}

// try calls op and returns the error that the helper answered.
func (p *peer) try(op string, params any, bin []byte, result any) ([]byte, error) {
	p.t.Helper()
	_, ch := p.send(op, params, bin, time.Minute)
	select {
	case m := <-ch:
		if m.Result != nil && result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				p.t.Fatal(err)
			}
		}
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Binary, nil
	case <-time.After(2 * time.Minute):
		p.t.Fatalf("%s: no answer", op)
	case <-p.ended:
		p.t.Fatalf("%s: the helper ended:\n%s", op, p.logged())
	}
	return nil, nil
}

func (p *peer) call(op string, params any, bin []byte, result any) []byte {
	p.t.Helper()
	out, err := p.try(op, params, bin, result)
	if err != nil {
		p.t.Fatalf("%s: %v", op, err)
	}
	return out
}

func (p *peer) play(events ...guest.InputEvent) guest.InputResult {
	p.t.Helper()
	var res guest.InputResult
	p.call(guest.OpInput, guest.InputBatch{Events: events}, nil, &res)
	return res
}

func (p *peer) text(s string) guest.InputEffect {
	p.t.Helper()
	return p.play(guest.InputEvent{Kind: "text", Text: s}).Effects[0]
}

// chord presses keys in order and lets them go.
func (p *peer) chord(syms ...uint32) {
	p.t.Helper()
	var evs []guest.InputEvent
	for _, s := range syms {
		evs = append(evs, guest.InputEvent{Kind: "key", Keysym: s, Down: true})
	}
	for _, s := range slices.Backward(syms) {
		evs = append(evs, guest.InputEvent{Kind: "key", Keysym: s})
	}
	p.play(evs...)
}

func (p *peer) windows() []guest.Window {
	p.t.Helper()
	var l guest.WindowList
	p.call(guest.OpWindows, nil, nil, &l)
	return l.Windows
}

// window waits for one whose class or title has the word.
func (p *peer) window(word string) guest.Window {
	p.t.Helper()
	var found guest.Window
	eventually(p.t, "window "+word, func() bool {
		for _, w := range p.windows() {
			if strings.Contains(strings.ToLower(w.Class+" "+w.Title), strings.ToLower(word)) {
				found = w
				return true
			}
		}
		return false
	})
	return found
}

func (p *peer) focus(w guest.Window) {
	p.t.Helper()
	eventually(p.t, "focus on "+w.Title, func() bool { // its window manager may be busy
		var done guest.WindowDone
		p.call(guest.OpWindow, guest.WindowOp{ID: w.ID, Op: "focus"}, nil, &done)
		return done.Effect == guest.EffectConfirmed
	})
}

// desktop is an X server with a window manager and a helper.
func desktop(t *testing.T) (*xserver, *peer) {
	t.Helper()
	x := startX(t)
	x.run(t, "dbus-daemon", "--session", "--nofork", "--nosyslog", "--address=unix:path="+x.home+"/bus")
	p := startHelper(t, x)
	eventually(t, "session bus", func() bool { _, err := os.Stat(x.home + "/bus"); return err == nil })
	x.run(t, "xfwm4", "--compositor=off")
	eventually(t, "window manager", func() bool {
		return strings.Contains(string(x.output(t, nil, "xprop", "-root", "_NET_SUPPORTING_WM_CHECK")), "window id")
	})
	return x, p
}
