package sandboxes_test

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// talk is one connection to a process.
type talk struct {
	t    *testing.T
	ws   *websocket.Conn
	sent int64 // offset of standard input
	// read is what has come, by channel; deaf ones are not acknowledged.
	read map[byte]*heard
}

type heard struct {
	data []byte
	next int64
	deaf bool
}

func (d *door) dial(at string, header ...string) (*websocket.Conn, *http.Response) {
	d.t.Helper()
	h := http.Header{"Authorization": {"Bearer " + d.token}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	dialer := websocket.Dialer{HandshakeTimeout: time.Minute, Subprotocols: []string{api.SubprotocolProcess}}
	ws, resp, err := dialer.DialContext(d.t.Context(), "ws"+strings.TrimPrefix(d.url, "http")+at+"/processes", h)
	if err != nil && resp == nil {
		d.t.Fatal(err)
	}
	if ws != nil {
		d.t.Cleanup(func() { ws.Close() })
		_ = ws.SetReadDeadline(time.Now().Add(5 * time.Minute)) // of the whole talk
	}
	return ws, resp
}

// talk says the first message, and reads "started".
func (d *door) talk(at string, m api.ProcessMessage) (*talk, api.ProcessMessage) {
	d.t.Helper()
	ws, _ := d.dial(at)
	c := &talk{t: d.t, ws: ws, read: map[byte]*heard{api.ChannelStdout: {}, api.ChannelStderr: {}}}
	c.say(m)
	s := c.until("started")
	c.read[api.ChannelStdout].next, c.read[api.ChannelStderr].next, c.sent = s.Stdout, s.Stderr, s.Stdin
	return c, s
}

func spawn(id string, argv ...string) api.ProcessMessage {
	return api.ProcessMessage{Type: "spawn", ID: id, Command: argv[0], Args: argv[1:]}
}

func (c *talk) say(m api.ProcessMessage) {
	c.t.Helper()
	if err := c.ws.WriteJSON(m); err != nil {
		c.t.Fatal(err)
	}
}

// write sends standard input; the caller minds the window.
func (c *talk) write(p string) {
	c.t.Helper()
	if err := c.ws.WriteMessage(websocket.BinaryMessage, frame(api.ChannelStdin, c.sent, p)); err != nil {
		c.t.Fatal(err)
	}
	c.sent += int64(len(p))
}

func frame(channel byte, seq int64, p string) []byte {
	b := make([]byte, 9, 9+len(p))
	b[0] = channel
	binary.BigEndian.PutUint64(b[1:], uint64(seq))
	return append(b, p...)
}

// next reads one message; bytes are noted, and acknowledged.
func (c *talk) next() (m api.ProcessMessage, err error) {
	kind, b, err := c.ws.ReadMessage()
	if err != nil {
		return m, err
	}
	if kind == websocket.TextMessage {
		return m, json.Unmarshal(b, &m)
	}
	h := c.read[b[0]]
	if seq := int64(binary.BigEndian.Uint64(b[1:])); seq != h.next {
		c.t.Fatalf("channel %d goes on at %d, not at %d", b[0], seq, h.next)
	}
	h.data = append(h.data, b[9:]...)
	h.next += int64(len(b) - 9)
	m = api.ProcessMessage{Type: "bytes", Channel: b[0]}
	if !h.deaf {
		_ = c.ws.WriteJSON(api.ProcessMessage{Type: "ack", Channel: b[0], Seq: h.next}) // it may be over
	}
	return m, nil
}

// until reads on to a message of a type.
func (c *talk) until(typ string) api.ProcessMessage {
	c.t.Helper()
	for {
		m, err := c.next()
		if err != nil {
			c.t.Fatalf("%q did not come: %v", typ, err)
		}
		if m.Type == typ {
			return m
		}
		if m.Type == "error" {
			c.t.Fatalf("%q did not come: %+v", typ, m.Error)
		}
	}
}

// out reads on until standard output has n bytes.
func (c *talk) out(n int) string {
	c.t.Helper()
	for len(c.read[api.ChannelStdout].data) < n {
		if m, err := c.next(); err != nil || m.Type == "exit" || m.Type == "error" {
			c.t.Fatalf("%d bytes did not come: %+v, %v", n, m, err)
		}
	}
	return string(c.read[api.ChannelStdout].data)
}

// bye closes in order, as a client that has heard the end.
func (c *talk) bye() {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Minute))
	for {
		if _, _, err := c.ws.ReadMessage(); err != nil {
			return
		}
	}
}

func TestProcessDuplex(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	t.Run("echo before the end, half-close, exit", func(t *testing.T) {
		c, s := d.talk(at, spawn("echo", "sh", "-c", "cat; echo bad >&2; exit 3"))
		if s.PID == 0 || s.Window == 0 {
			t.Errorf("started %+v", s)
		}
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		c.write(string(every))
		if got := c.out(256); got != string(every) {
			t.Errorf("echoed %q", got)
		}
		c.write("more\n")
		c.out(261)
		c.say(api.ProcessMessage{Type: "stdin_close"})
		m := c.until("exit")
		if m.Code == nil || *m.Code != 3 || m.Signal != nil || string(c.read[api.ChannelStderr].data) != "bad\n" || len(c.read[api.ChannelStdout].data) != 261 {
			t.Errorf("exit %+v, stderr %q", m, c.read[api.ChannelStderr].data)
		}
		c.bye()
	})
	t.Run("environment, directory", func(t *testing.T) {
		m := spawn("env", "sh", "-c", "echo $A; pwd")
		m.Env, m.Cwd = map[string]string{"A": "b c"}, "/usr"
		c, _ := d.talk(at, m)
		c.until("exit")
		if got := string(c.read[api.ChannelStdout].data); got != "b c\n/usr\n" {
			t.Errorf("said %q", got)
		}
	})
	for name, signal := range map[string]string{"term": "SIGTERM", "kill": "SIGKILL"} {
		t.Run(name, func(t *testing.T) {
			c, _ := d.talk(at, spawn(name, "sh", "-c", "sleep 1000 & echo on; wait"))
			c.out(3)
			c.say(api.ProcessMessage{Type: "kill", Signal: &signal})
			if m := c.until("exit"); m.Signal == nil || *m.Signal != signal || m.Code != nil {
				t.Errorf("exit %+v", m)
			}
			c.bye()
		})
	}
	t.Run("a program that reads no more", func(t *testing.T) {
		c, _ := d.talk(at, spawn("deaf", "sh", "-c", "exec <&-; echo on; sleep 1000"))
		c.out(3)
		c.write("nobody reads this")
		c.until("stdin_close")
		if m := c.until("ack"); m.Seq != c.sent {
			t.Errorf("%d bytes are confirmed of %d", m.Seq, c.sent)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		ws, _ := d.dial(at)
		c := &talk{t: t, ws: ws}
		c.say(spawn("none", "no-such-program"))
		m, err := c.next()
		if err != nil || m.Type != "error" || m.Error.Code != api.CodeNotFound || m.Error.Retryable {
			t.Errorf("%+v, %v", m, err)
		}
	})
	t.Run("stale generation", func(t *testing.T) {
		d.create(2)
		if _, resp := d.dial(at); resp.StatusCode != http.StatusConflict {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

func TestProcessMalformed(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	text := func(s string) func(*talk) {
		return func(c *talk) { _ = c.ws.WriteMessage(websocket.TextMessage, []byte(s)) }
	}
	data := func(b []byte) func(*talk) { return func(c *talk) { _ = c.ws.WriteMessage(websocket.BinaryMessage, b) } }
	for name, send := range map[string]func(*talk){
		"no JSON":                text("{"),
		"unknown type":           text(`{"type":"dance"}`),
		"spawn again":            text(`{"type":"spawn","id":"x","command":"true"}`),
		"acknowledged too much":  text(`{"type":"ack","channel":1,"seq":99}`),
		"acknowledged its input": text(`{"type":"ack","channel":0,"seq":0}`),
		"no such signal":         text(`{"type":"kill","signal":"SIGNONE"}`),
		"short frame":            data([]byte{0, 1}),
		"channel of the server":  data(frame(1, 0, "x")),
		"gap":                    data(frame(0, 7, "x")),
		"beyond the window":      data(frame(0, 0, strings.Repeat("x", 256<<10+1))),
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := d.talk(at, spawn("same", "cat"))
			c.t = t
			send(c)
			last := api.ProcessMessage{}
			for {
				m, err := c.next()
				if err != nil {
					break
				}
				last = m
			}
			if last.Type != "error" || last.Error == nil || last.Error.Code != api.CodeInvalid {
				t.Errorf("the last word is %+v", last)
			}
		})
	}
	for name, m := range map[string]api.ProcessMessage{
		"no id": {Type: "spawn", Command: "true"}, "odd id": {Type: "attach", ID: "../x"}, "no command": {Type: "spawn", ID: "y"},
		"kill first": {Type: "kill", ID: "same"},
	} {
		t.Run(name, func(t *testing.T) {
			ws, _ := d.dial(at)
			c := &talk{t: t, ws: ws}
			c.say(m)
			if got, err := c.next(); err != nil || got.Type != "error" || got.Error.Code != api.CodeInvalid {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
