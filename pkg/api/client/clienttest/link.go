package clienttest

import (
	"encoding/json"
	"slices"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// link is one attached connection.
type link struct {
	e        *exec
	conn     *websocket.Conn
	out, err int // offsets of what comes next
	budget   int // bytes of output until the link breaks; < 0: never
	input    int // the same for input
}

func (l *link) run() {
	l.e.change(func() { l.e.feeder = l })
	read := make(chan struct{})
	go func() {
		defer close(read)
		for l.receive() {
		}
	}()
	l.send(read)
	_ = l.conn.Close()
	<-read
}

// receive takes one message of the client.
func (l *link) receive() bool {
	kind, data, err := l.conn.ReadMessage()
	if err != nil {
		return false
	}
	if kind == websocket.BinaryMessage {
		data = data[1:]
		broken := l.input >= 0 && len(data) > l.input
		if broken {
			data = data[:l.input]
		}
		if l.input >= 0 {
			l.input -= len(data)
		}
		l.e.change(func() {
			if l.e.feeder == l {
				l.e.input = append(l.e.input, data...)
				l.e.out = append(l.e.out, data...)
			}
		})
		return !broken
	}
	var m api.ExecMessage
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	l.e.change(func() {
		switch m.Kind {
		case "eof":
			l.e.end(0, "")
		case "resize":
			l.e.sizes = append(l.e.sizes, api.Display{Width: int(m.Cols), Height: int(m.Rows)})
		case "signal":
			l.e.end(130, m.Signal)
		}
	})
	return true
}

// send sends all output and the end.
func (l *link) send(gone <-chan struct{}) {
	l.e.mu.Lock()
	l.out, l.err = max(l.out, l.e.kept), max(l.err, 0)
	status := l.e.status
	status.In = int64(len(l.e.input))
	told := status.In
	l.e.mu.Unlock()
	// A server may begin a little earlier than it was asked to.
	from := max(l.out-3, min(l.e.kept, l.out))
	if l.out > 0 {
		l.out = from
	}
	l.say(api.ExecMessage{Kind: "attached", Status: &status, OutFrom: int64(l.out), ErrFrom: int64(l.err)})
	for {
		l.e.mu.Lock()
		out, errOut := slices.Clone(l.e.out[l.out:]), slices.Clone(l.e.err[l.err:])
		status, grown, in := l.e.status, l.e.grown, int64(len(l.e.input))
		l.e.mu.Unlock()
		const step = 64 << 10 // it is told in steps
		if in-told >= step {
			told = in - in%step
			l.say(api.ExecMessage{Kind: "taken", In: told})
		}
		l.out, l.err = l.out+len(out), l.err+len(errOut)
		if !l.bytes(api.ChannelStdout, out) || !l.bytes(api.ChannelStderr, errOut) {
			return
		}
		if !status.Running {
			l.say(api.ExecMessage{Kind: "end", Status: &status})
			return
		}
		select {
		case <-grown:
		case <-gone:
			return
		}
	}
}

// bytes sends output in frames of 1,000 bytes; false when the link broke.
func (l *link) bytes(channel byte, data []byte) bool {
	for chunk := range slices.Chunk(data, 1000) {
		if l.budget >= 0 && len(chunk) > l.budget {
			_ = l.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, chunk[:l.budget]...))
			return false
		}
		if l.budget >= 0 {
			l.budget -= len(chunk)
		}
		if l.conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, chunk...)) != nil {
			return false
		}
	}
	return true
}

func (l *link) say(m api.ExecMessage) {
	raw, _ := json.Marshal(m)
	_ = l.conn.WriteMessage(websocket.TextMessage, raw)
}
