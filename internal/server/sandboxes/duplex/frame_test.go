package duplex

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/deskfork/deskfork/internal/server/stream"
)

func bytesOf(channel byte, seq int64, data string) []byte {
	b := make([]byte, header, header+len(data))
	putHeader(b, channel, seq)
	return append(b, data...)
}

// FuzzFrame: whatever a client sends is a frame that is written as it was read, or
// refused; and an input that takes it never holds more than the window.
func FuzzFrame(f *testing.F) {
	f.Add(bytesOf(0, 0, "hello"), int64(0))
	f.Add(bytesOf(2, math.MaxInt64, ""), int64(7))
	f.Add(bytesOf(0, math.MaxInt64-1, "xx"), int64(math.MaxInt64-1))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'x'}, int64(0))
	f.Add([]byte{3}, int64(0))
	f.Add([]byte{}, int64(0))
	f.Add(make([]byte, maxFrame+1), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, next int64) {
		fr, err := parseFrame(b)
		if err != nil {
			if !errors.Is(err, stream.ErrProtocol) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if fr.seq < 0 || fr.seq+int64(len(fr.data)) < fr.seq || len(fr.data) > Window {
			t.Fatalf("frame at %d of %d bytes", fr.seq, len(fr.data))
		}
		if again := bytesOf(fr.channel, fr.seq, string(fr.data)); !bytes.Equal(again, b) {
			t.Errorf("written again it is %x, was %x", again, b)
		}
		if next < 0 || next > 1<<62 {
			return
		}
		in, end := newInput(next), fr.seq+int64(len(fr.data))
		err = in.accept(fr)
		if got := in.came(); got < next || got > next+Window || (err == nil && got < end) || (err != nil && got != next) {
			t.Errorf("from %d the frame at %d of %d bytes leads to %d, %v", next, fr.seq, len(fr.data), got, err)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for _, m := range []string{`{"type":"spawn","id":"a","command":"cat"}`, `{"type":"ack","channel":1,"seq":9}`, `{"type":"ack","seq":-1}`, `{`, `[]`, `{"type":"ack","channel":300}`} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			if !errors.Is(err, stream.ErrProtocol) {
				t.Errorf("refused with %v", err)
			}
			return
		}
		if m.Seq < 0 || m.GraceMS < 0 || m.Stdout < 0 {
			t.Errorf("a negative number came through: %+v", m)
		}
		if _, err := json.Marshal(m); err != nil {
			t.Error(err)
		}
	})
}

func TestInput(t *testing.T) {
	in := newInput(10)
	steps := []struct {
		name string
		f    frame
		bad  bool
		came int64
	}{
		{"in order", frame{seq: 10, data: []byte("abc")}, false, 13},
		{"again", frame{seq: 10, data: []byte("abc")}, false, 13},
		{"overlap", frame{seq: 11, data: []byte("bcde")}, false, 15},
		{"gap", frame{seq: 16, data: []byte("x")}, true, 15},
		{"beyond the window", frame{seq: 15, data: make([]byte, Window)}, true, 15},
		{"up to the window", frame{seq: 15, data: make([]byte, Window-5)}, false, Window + 10},
	}
	for _, s := range steps {
		if err := in.accept(s.f); errors.Is(err, stream.ErrProtocol) != s.bad || in.came() != s.came {
			t.Errorf("%s: %v, up to %d", s.name, err, in.came())
		}
	}
	var got []byte
	in.close()
	for {
		p, end, ok := in.take(t.Context())
		if end || !ok {
			break
		}
		got = append(got, p...)
	}
	if string(got[:5]) != "abcde" || len(got) != Window {
		t.Errorf("%d bytes came out: %q", len(got), got[:5])
	}
	if err := in.accept(frame{seq: in.came(), data: []byte("x")}); !errors.Is(err, stream.ErrProtocol) {
		t.Errorf("input after its end: %v", err)
	}
	if !in.tell(20) || in.tell(20) || in.tell(15) {
		t.Error("what was told grows only")
	}
}

func TestCredit(t *testing.T) {
	c := newCredit(100)
	if seq := c.spend(Window); seq != 100 {
		t.Errorf("the first byte is %d", seq)
	}
	if err := c.ack(101 + Window); !errors.Is(err, stream.ErrProtocol) {
		t.Errorf("what was not sent is acknowledged: %v", err)
	}
	for _, seq := range []int64{107, 103} { // an old one changes nothing
		if err := c.ack(seq); err != nil {
			t.Error(err)
		}
	}
	if n, err := c.room(t.Context()); n != 7 || err != nil {
		t.Errorf("room for %d, %v", n, err)
	}
}
