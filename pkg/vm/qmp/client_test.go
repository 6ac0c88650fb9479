package qmp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	goqemu "github.com/digitalocean/go-qemu/qmp"
	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 1, "minor": 2, "major": 7}, "package": ""}, "capabilities": ["oob"]}}` + "\n"

type command struct {
	Execute string `json:"execute"`
	ID      uint64 `json:"id"`
}

// fake answers qmp_capabilities and hands every other command to answer, which
// writes what it likes. It ends with the connection.
func fake(conn net.Conn, answer func(command, io.Writer)) {
	defer conn.Close()
	if _, err := io.WriteString(conn, greeting); err != nil {
		return
	}
	for s := bufio.NewScanner(conn); s.Scan(); {
		var cmd command
		if json.Unmarshal(s.Bytes(), &cmd) != nil {
			return
		}
		if cmd.Execute == "qmp_capabilities" {
			fmt.Fprintf(conn, `{"return":{},"id":%d}`+"\n", cmd.ID)
			continue
		}
		answer(cmd, conn)
	}
}

func dialFake(t *testing.T, cfg qmp.Config, answer func(command, io.Writer)) *qmp.Client {
	t.Helper()
	ours, theirs := net.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); fake(theirs, answer) }() // awaited in the clean-up
	c, err := qmp.New(t.Context(), ours, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); <-ended })
	return c
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300<<10)
	c := dialFake(t, qmp.Config{MaxLine: 400 << 10}, func(cmd command, w io.Writer) {
		n := 1
		if cmd.Execute == "too-long" {
			n = 2
		}
		fmt.Fprintf(w, `{"return":%q,"id":%d}`+"\n", strings.Repeat(long, n), cmd.ID)
	})
	var got string
	if err := c.Execute(t.Context(), "long", nil, &got); err != nil || got != long {
		t.Fatalf("a reply of 300 KiB: %d bytes, %v", len(got), err)
	}
	if err := c.Execute(t.Context(), "too-long", nil, &got); !errors.Is(err, qmp.ErrClosed) || !strings.Contains(err.Error(), "above") {
		t.Fatalf("a reply above MaxLine: %v, want ErrClosed that says so", err)
	}
}

func TestDeadlineAndLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late []uint64
		c := dialFake(t, qmp.Config{Timeout: 3 * time.Second}, func(cmd command, w io.Writer) {
			if cmd.Execute == "slow" {
				late = append(late, cmd.ID)
				return
			}
			for _, id := range late {
				fmt.Fprintf(w, `{"return":"late","id":%d}`+"\n", id)
			}
			fmt.Fprintf(w, `{"return":"mine","id":%d}`+"\n", cmd.ID)
		})
		began := time.Now()
		if err := c.Execute(t.Context(), "slow", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("slow = %v, want deadline", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Fatalf("waited %v, want the configured 3 s", d)
		}
		var got string
		if err := c.Execute(t.Context(), "quick", nil, &got); err != nil || got != "mine" {
			t.Fatalf("after a late reply: %q, %v; want mine", got, err)
		}
		_ = c.Close()
	})
}

func TestStuckPeerBlocksNobodyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() { // ends after the handshake; nobody reads any more
			r := bufio.NewReader(theirs)
			_, _ = io.WriteString(theirs, greeting)
			_, _ = r.ReadString('\n')
			_, _ = io.WriteString(theirs, `{"return":{},"id":1}`+"\n")
		}()
		c, err := qmp.New(t.Context(), ours, qmp.Config{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- c.Execute(t.Context(), "query-status", nil, nil) }() // awaited below
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Execute = %v, want deadline", err)
			}
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("three commands took %v", d)
		}
		theirs.Close()
		<-c.Done()
		if err := c.Execute(t.Context(), "query-status", nil, nil); !errors.Is(err, qmp.ErrClosed) {
			t.Errorf("after the end: %v, want ErrClosed", err)
		}
	})
}

// lateCut is a connection whose caller goes away while it writes, and whose writes
// are cut off only a while after.
type lateCut struct {
	net.Conn
	leave context.CancelFunc // nil: nobody leaves
}

func (c *lateCut) Write(b []byte) (int, error) {
	if c.leave != nil {
		c.leave()
	}
	return c.Conn.Write(b)
}

func (c *lateCut) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() {
		<-time.After(time.Second)
	}
	return c.Conn.SetWriteDeadline(at)
}

// TestCutOfOneCommandMissesTheNext: whoever gives a command up does not cut off
// what somebody else writes.
func TestCutOfOneCommandMissesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go fake(theirs, func(cmd command, w io.Writer) { fmt.Fprintf(w, `{"return":{},"id":%d}`+"\n", cmd.ID) })
		conn := &lateCut{Conn: ours}
		c, err := qmp.New(t.Context(), conn, qmp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		conn.leave = cancel
		_ = c.Execute(ctx, "given up", nil, nil) // answered or not
		conn.leave = nil
		for range 2 {
			if err := c.Execute(t.Context(), "another's", nil, nil); err != nil {
				t.Error(err)
			}
			<-time.After(2 * time.Second)
		}
		_ = c.Close()
	})
}

func TestGreetingDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		if _, err := qmp.New(t.Context(), ours, qmp.Config{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("New without a greeting = %v, want deadline", err)
		}
	})
}

func TestIdleSubscriberStopsNobody(t *testing.T) {
	t.Parallel()
	const events = 1000
	c := dialFake(t, qmp.Config{}, func(cmd command, w io.Writer) {
		for i := range events {
			fmt.Fprintf(w, `{"event":"E%d","timestamp":{"seconds":1,"microseconds":0}}`+"\n", i)
		}
		fmt.Fprintf(w, `{"return":{},"id":%d}`+"\n", cmd.ID)
	})
	idle, closed := c.Subscribe(4), c.Subscribe(4)
	closed.Close()
	closed.Close()
	if err := c.Execute(t.Context(), "burst", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := idle.Dropped(); got != events-4 {
		t.Errorf("dropped %d, want %d", got, events-4)
	}
	if e := <-idle.Events(); e.Event != fmt.Sprintf("E%d", events-4) {
		t.Errorf("oldest kept event is %s, want the fourth from the end", e.Event)
	}
	if _, ok := <-closed.Events(); ok {
		t.Error("a closed subscription got an event")
	}
	_ = c.Close()
	if _, ok := <-c.Subscribe(1).Events(); ok {
		t.Error("an event after the end")
	}
}

func TestErrorClass(t *testing.T) {
	t.Parallel()
	c := dialFake(t, qmp.Config{}, func(cmd command, w io.Writer) {
		fmt.Fprintf(w, `{"error":{"class":"CommandNotFound","desc":"no such"},"id":%d}`+"\n", cmd.ID)
	})
	err := c.Execute(t.Context(), "nope", nil, nil)
	if !qmp.IsClass(err, qmp.ClassCommandNotFound) || qmp.IsClass(err, qmp.ClassGeneric) {
		t.Fatalf("Execute = %v, want class CommandNotFound", err)
	}
}

func TestSendFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() { got <- receiveFile(l) }() // awaited below
	c, err := qmp.Dial(t.Context(), path, qmp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	f, err := os.Open("testdata/commands.txtar")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := c.SendFile(t.Context(), "state0", f); err != nil {
		t.Fatal(err)
	}
	if s := <-got; !strings.HasPrefix(s, "The ordinary course") {
		t.Fatalf("the other end read %q through the descriptor", s)
	}
}

// receiveFile plays a QEMU that takes one getfd and reads from the descriptor.
func receiveFile(l net.Listener) string {
	conn, err := l.Accept()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, greeting)
	buf := make([]byte, 4096)
	_, _ = conn.Read(buf)
	_, _ = io.WriteString(conn, `{"return":{},"id":1}`+"\n")
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(buf, oob)
	if err != nil || !strings.Contains(string(buf[:n]), `"fdname":"state0"`) {
		return fmt.Sprint(string(buf[:n]), err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return fmt.Sprint("control messages: ", len(msgs), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return fmt.Sprint("descriptors: ", fds, err)
	}
	f := os.NewFile(uintptr(fds[0]), "passed")
	defer f.Close()
	_, _ = io.WriteString(conn, `{"return":{},"id":2}`+"\n")
	b, err := io.ReadAll(f)
	return string(b) + fmt.Sprint(err)
}

func TestMonitorFitsGoQEMU(t *testing.T) {
	t.Parallel()
	c := dialFake(t, qmp.Config{}, func(cmd command, w io.Writer) {
		fmt.Fprintf(w, `{"event":"STOP","data":{"a":1},"timestamp":{"seconds":1,"microseconds":0}}`+"\n")
		fmt.Fprintf(w, `{"return":{"n":5},"id":%d}`+"\n", cmd.ID)
	})
	var m goqemu.Monitor = c.Monitor()
	if err := m.Connect(); err != nil {
		t.Fatal(err)
	}
	events, err := m.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Run([]byte(`{"execute":"x","arguments":{"y":1}}`))
	if err != nil || !strings.Contains(string(out), `"n":5`) {
		t.Fatalf("Run = %s, %v", out, err)
	}
	if e := <-events; e.Event != "STOP" || e.Data["a"] != 1.0 {
		t.Fatalf("event %+v", e)
	}
	for _, bad := range []string{"{", "{}"} {
		if _, err := m.Run([]byte(bad)); err == nil {
			t.Errorf("Run(%s) succeeded", bad)
		}
	}
	if err := m.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if err := m.Connect(); !errors.Is(err, qmp.ErrClosed) {
		t.Fatalf("Connect after the end = %v, want ErrClosed", err)
	}
}

// FuzzServer feeds a client arbitrary bytes from QEMU's side.
func FuzzServer(f *testing.F) {
	f.Add([]byte(greeting + `{"return":{},"id":1}` + "\n" + `{"return":{},"id":2}` + "\n"))
	f.Add([]byte(greeting + `{"return":{},"id":1}` + "\n" + `{"event":"X","data":7}` + "\n"))
	f.Add([]byte("\n\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		sent := make(chan struct{})
		go func() { // awaited below
			defer close(sent)
			_, _ = theirs.Write(b)
			theirs.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends with theirs
		c, err := qmp.New(t.Context(), ours, qmp.Config{Timeout: time.Second, MaxLine: 1 << 16})
		if err == nil {
			sub := c.Subscribe(2)
			_ = c.Execute(t.Context(), "query-status", nil, nil)
			_ = c.Close()
			for range sub.Events() {
				continue
			}
		}
		<-sent
	})
}
