package cli_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/internal/demo/demotest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

// clock is a clock that goes a second forward each time it is read.
func clock(from time.Time) func() time.Time {
	var n atomic.Int64
	return func() time.Time { return from.Add(time.Duration(n.Add(1)) * time.Second) }
}

// console is a terminal of 80 by 24 cells that then grows.
type console struct {
	raw, restored atomic.Int32
}

func (c *console) Raw() (func() error, error) {
	c.raw.Add(1)
	return func() error { c.restored.Add(1); return nil }, nil
}

func (c *console) Sizes(ctx context.Context) <-chan client.Size {
	sizes := make(chan client.Size)
	go func() {
		for _, size := range []client.Size{{Cols: 80, Rows: 24}, {Cols: 132, Rows: 50}} {
			select {
			case sizes <- size:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sizes
}

// output is a buffer that many may write, and wait for.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	grew chan struct{}
}

func newOutput() *output { return &output{grew: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	select {
	case o.grew <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the output holds a text.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(o.String(), text) {
		select {
		case <-o.grew:
		case <-ctx.Done():
			t.Fatalf("waited for %q; got %q", text, o)
		}
	}
}

// TestTerminal: a terminal is raw, echoes, knows its size, survives a broken
// link and is put back.
func TestTerminal(t *testing.T) {
	s := desk(t)
	s.CutLinks(6)
	keys, typing := io.Pipe()
	var screen console
	out, errs := newOutput(), newOutput()
	r := newRun(s, "")
	r.cfg.In, r.cfg.Out, r.cfg.Err, r.cfg.Terminal = keys, out, errs, &screen
	status := make(chan int, 1)
	go func() { status <- r.do(t, "exec", "-it", "first", "--", "bash") }()
	write := func(text string) {
		if _, err := io.WriteString(typing, text); err != nil {
			t.Error(err)
		}
	}
	write("echo")
	out.await(t, "echo")
	write(" and more") // the link breaks within it
	errs.await(t, "attached again\r\n")
	out.await(t, "echo and more")
	if err := typing.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
	if out.String() != "echo and more" {
		t.Errorf("output %q", out)
	}
	if !strings.Contains(errs.String(), "vmhost: link lost") {
		t.Errorf("standard error %q", errs)
	}
	sizes := s.Sizes("first")
	if len(sizes) < 2 || sizes[0] != (api.Display{Width: 80, Height: 24}) || sizes[1] != (api.Display{Width: 132, Height: 50}) {
		t.Errorf("sizes %v", sizes)
	}
	if screen.raw.Load() != 1 || screen.restored.Load() != 1 {
		t.Errorf("raw %d times, restored %d", screen.raw.Load(), screen.restored.Load())
	}
}

// TestInterrupt: an interrupt is the program's, and its end is ours.
func TestInterrupt(t *testing.T) {
	s := desk(t)
	ctx, interrupt := context.WithCancel(t.Context())
	r := newRun(s, "")
	status := make(chan int, 1)
	go func() { status <- cli.Run(ctx, r.cfg, []string{"exec", "first", "--", "wait"}) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !attached(s) {
		<-tick.C
	}
	interrupt()
	if got := <-status; got != 143 { // the fake's answer to any signal
		t.Errorf("status %d, %s", got, &r.err)
	}
}

func attached(s *clienttest.Server) bool {
	for _, r := range s.Requests() {
		if strings.Contains(r, "/attach") {
			return true
		}
	}
	return false
}

// TestDetachAndAttach: an exec goes on by itself and is found again by its id.
func TestDetachAndAttach(t *testing.T) {
	s := desk(t)
	r := newRun(s, "")
	if status := r.do(t, "exec", "-d", "first", "--", "numbers", "3"); status != 0 {
		t.Fatal(status)
	}
	id := strings.TrimSpace(r.out.String())
	s.DropOutput("first", id, 2)
	again := newRun(s, "")
	if status := again.do(t, "exec", "--attach", id, "first"); status != 0 || again.out.String() != "1\n2\n" {
		t.Errorf("%d, %q, %s", status, &again.out, &again.err)
	}
}

func TestForward(t *testing.T) {
	s := desk(t)
	ctx, stop := context.WithCancel(t.Context())
	lines, w := io.Pipe()
	errs := newOutput()
	r := newRun(s, "")
	r.cfg.Out, r.cfg.Err = w, errs
	status := make(chan int, 1)
	go func() { status <- cli.Run(ctx, r.cfg, []string{"forward", "first", "0:7"}) }()
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, rest, _ := strings.Cut(line, " ")
	if rest != "-> first:7\n" {
		t.Errorf("said %q", line)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "there and back"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 14)
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "there and back" {
		t.Errorf("%q, %v", buf, err)
	}
	stop()
	if got := <-status; got != 0 {
		t.Errorf("status %d, %s", got, errs)
	}
}

func TestDemo(t *testing.T) {
	s := desk(t)
	demotest.Prepare(s)
	file := filepath.Join(t.TempDir(), "shot.png")
	r := newRun(s, "")
	r.cfg.Token, r.cfg.DataDir = "", t.TempDir()
	if err := os.WriteFile(r.cfg.DataDir+"/token", []byte(clienttest.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	forks := filepath.Join(t.TempDir(), "forks")
	if status := r.do(t, "demo", "first", "-o", file, "--forks", forks); status != 0 {
		t.Fatalf("%d, %s", status, &r.err)
	}
	for _, part := range []string{
		"first signed in once, in 0.", "it stood still for 32 ms; the last of 5 children\n",
		"└─ first-demo-5   signs out        session 12ab34cd ended, here only", "sheet: " + forks + "/sheet.png",
		"API:   " + s.URL, "Token: " + r.cfg.DataDir + "/token", "vmhost exec -it first -- bash",
	} {
		if !strings.Contains(r.out.String(), part) {
			t.Errorf("no %q in %s", part, &r.out)
		}
	}
	if n := strings.Count(r.out.String(), "\n  vmhost "); n != 5 {
		t.Errorf("%d commands to try", n)
	}
	elsewhere := r.cfg.DataDir
	played := len(s.Actions("first"))
	look := newRun(s, "")
	look.cfg.Token, look.cfg.DataDir, look.cfg.Program = "", t.TempDir(), "bin/vmhost"
	if status := look.do(t, "demo", "first", "-o", file, "--look", "--data-dir", elsewhere); status != 0 || len(s.Actions("first")) != played {
		t.Errorf("a look: %d, %s", status, &look.err)
	}
	for _, part := range []string{"Token: " + elsewhere + "/token", "\n  bin/vmhost --data-dir " + elsewhere + " tree\n"} {
		if !strings.Contains(look.out.String(), part) {
			t.Errorf("no %q in %s", part, &look.out)
		}
	}
	files := []string{file}
	for _, name := range []string{"sheet", "parent", "form", "files", "editor", "terminal", "sign-out"} {
		files = append(files, filepath.Join(forks, name+".png"))
	}
	for _, file := range files {
		if raw, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(raw), "\x89PNG") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
