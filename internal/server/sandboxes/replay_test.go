package sandboxes_test

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

func attach(id string, stdout, stderr int64) api.ProcessMessage {
	return api.ProcessMessage{Type: "attach", ID: id, Stdout: stdout, Stderr: stderr}
}

// TestProcessFlow: a client that takes nothing of one output holds neither the other
// up nor the server, and gets all of it when it comes to it.
func TestProcessFlow(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	const size = 5 << 20
	c, s := d.talk(at, spawn("noisy", "sh", "-c", "head -c "+strconv.Itoa(size)+" /dev/zero >&2 & seq 1 200000; wait; echo done"))
	noise := c.read[api.ChannelStderr]
	noise.deaf = true
	var want []byte
	for i := 1; i <= 200000; i++ {
		want = append(strconv.AppendInt(want, int64(i), 10), '\n')
	}
	if got := c.out(len(want)); got != string(want) {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
	if noise.next > s.Window {
		t.Errorf("%d bytes came without credit, the window is %d", noise.next, s.Window)
	}
	noise.deaf = false
	c.say(api.ProcessMessage{Type: "ack", Channel: api.ChannelStderr, Seq: noise.next})
	if m := c.until("exit"); m.Code == nil || *m.Code != 0 || noise.next != size {
		t.Errorf("exit %+v after %d bytes", m, noise.next)
	}
	c.bye()
}

// TestProcessReplay: connections break again and again, whatever is on its way; what
// came in and went out is whole.
func TestProcessReplay(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	var in []byte
	for i := range 400000 {
		in = append(strconv.AppendInt(in, int64(i), 10), '\n')
	}
	c, s := d.talk(at, spawn("cat", "cat"))
	var got []byte
	acked, broke, end := int64(0), 0, api.ProcessMessage{}
	for end.Type == "" {
		// What is sent is what the window allows; the rest when it was acknowledged.
		for c.sent < int64(len(in)) && c.sent < acked+s.Window {
			c.write(string(in[c.sent:min(int64(len(in)), acked+s.Window, c.sent+60_000)]))
		}
		if c.sent == int64(len(in)) {
			c.say(api.ProcessMessage{Type: "stdin_close"})
		}
		m, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		switch m.Type {
		case "ack":
			acked = max(acked, m.Seq)
		case "exit":
			end = m
		}
		if h := c.read[api.ChannelStdout]; len(h.data) > 300_000*(broke%3+1) {
			// Broken without a word; some of what has come counts as lost with it.
			got = append(got, h.data[:len(h.data)-50_000*(broke%3)]...)
			_ = c.ws.NetConn().Close()
			c, s = d.talk(at, attach("cat", int64(len(got)), 0))
			if s.Stdout != int64(len(got)) || s.Gone != 0 {
				t.Fatalf("wanted to go on at %d: %+v", len(got), s)
			}
			acked, broke = s.Stdin, broke+1
		}
	}
	got = append(got, c.read[api.ChannelStdout].data...)
	if !bytes.Equal(got, in) || *end.Code != 0 || broke < 3 {
		t.Errorf("%d of %d bytes came over %d connections; exit %+v", len(got), len(in), broke, end)
	}
	c.bye()
}

// TestProcessIsAskedAgain: the end of a process is told as often as it takes, until a
// client has said that it knows.
func TestProcessIsAskedAgain(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	first, a := d.talk(at, spawn("once", "sh", "-c", "echo out; exit 5"))
	first.until("exit")
	_ = first.ws.NetConn().Close()
	again, b := d.talk(at, spawn("once", "sh", "-c", "echo out; exit 5"))
	if m := again.until("exit"); *m.Code != 5 || a.PID != b.PID || string(again.read[api.ChannelStdout].data) != "out\n" {
		t.Errorf("again %+v, pid %d and %d, %q", m, a.PID, b.PID, again.read[api.ChannelStdout].data)
	}
	again.bye()
	for deadline := time.Now().Add(time.Minute); ; { // forgotten soon after
		ws, _ := d.dial(at)
		c := &talk{t: t, ws: ws, read: map[byte]*heard{1: {next: 4}, 2: {}}}
		c.say(attach("once", 4, 0))
		m, err := c.next()
		ws.Close()
		if err == nil && m.Type == "error" && m.Error.Code == api.CodeNotFound {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: %+v, %v", m, err)
		}
	}
}

func TestProcessGrace(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	m := spawn("short", "sleep", "1000")
	m.GraceMS = 100
	c, _ := d.talk(at, m)
	_ = c.ws.NetConn().Close()
	// Whoever comes in time keeps it alive; in the end nobody does.
	for deadline := time.Now().Add(time.Minute); ; {
		l, err := d.desk.Use(t.Context(), caller(), at[len("/v1/sandboxes/"):])
		if err != nil {
			t.Fatal(err)
		}
		st, err := l.Execs.Status(t.Context(), "proc-short")
		if err != nil {
			t.Fatal(err)
		}
		if !st.Running {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it lives on without a client")
		}
	}
	late, _ := d.talk(at, attach("short", 0, 0))
	if m := late.until("exit"); m.Signal == nil || *m.Signal != "SIGKILL" {
		t.Errorf("exit %+v", m)
	}
}

// TestProcessIsTakenOver: of two connections the later one counts, and what was
// confirmed and is not kept any more is said to be gone.
func TestProcessIsTakenOver(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	const size = 4 << 20
	one, _ := d.talk(at, spawn("x", "sh", "-c", "head -c "+strconv.Itoa(size)+" /dev/zero; cat"))
	one.out(size)
	two, s := d.talk(at, attach("x", 0, 0))
	if s.Gone == 0 || s.Gone != s.Stdout || s.Gone > size {
		t.Errorf("started %+v", s)
	}
	for {
		m, err := one.next()
		if err != nil {
			t.Fatalf("the former was not told: %v", err)
		}
		if m.Type == "error" {
			if m.Error.Code != api.CodeConflict || m.Error.Retryable {
				t.Errorf("the former is told %+v", m.Error)
			}
			break
		}
	}
	two.say(api.ProcessMessage{Type: "stdin_close"})
	two.until("exit")
	if got := int64(len(two.read[api.ChannelStdout].data)); got+s.Gone != size {
		t.Errorf("%d bytes came and %d are gone", got, s.Gone)
	}
	two.bye()
}

// TestProcessOverLostLink: the link to the guest breaks; the client is told to come
// again, and nothing is lost.
func TestProcessOverLostLink(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	c, _ := d.talk(at, spawn("x", "cat"))
	c.write("one\n")
	c.out(4)
	d.guest.Cut()
	for {
		m, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Type == "error" {
			if !m.Error.Retryable {
				t.Errorf("told %+v", m.Error)
			}
			break
		}
	}
	again, s := d.talk(at, attach("x", 4, 0))
	if s.Stdin != 4 {
		t.Errorf("input goes on at %d", s.Stdin)
	}
	again.write("two\n")
	again.out(4)
	again.say(api.ProcessMessage{Type: "stdin_close"})
	if m := again.until("exit"); *m.Code != 0 || string(again.read[api.ChannelStdout].data) != "two\n" {
		t.Errorf("exit %+v, %q", m, again.read[api.ChannelStdout].data)
	}
	again.bye()
}
