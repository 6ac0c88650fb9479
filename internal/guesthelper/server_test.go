//go:build linux

package guesthelper_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/guesthelper"
	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

type testOp = func(context.Context, guest.HelperMessage) (any, []byte, error)

// testOps are operations that behave well and badly; one hangs until freed.
func testOps(freed <-chan struct{}) map[string]testOp {
	return map[string]testOp{
		"echo": func(_ context.Context, m guest.HelperMessage) (any, []byte, error) {
			return m.Params, m.Binary, nil
		},
		"wait": func(ctx context.Context, _ guest.HelperMessage) (any, []byte, error) {
			<-ctx.Done()
			return nil, nil, context.Cause(ctx)
		},
		"hang": func(context.Context, guest.HelperMessage) (any, []byte, error) {
			<-freed
			return nil, nil, nil
		},
		"panic": func(context.Context, guest.HelperMessage) (any, []byte, error) { panic("boom") },
		"half": func(context.Context, guest.HelperMessage) (any, []byte, error) {
			return guest.InputResult{Done: 2}, []byte("no"), errors.New("third")
		},
	}
}

type link struct {
	*guest.HelperConn
	w     *io.PipeWriter
	lost  chan struct{}
	freed chan struct{} // lets go of what hangs
	end   chan error
}

// serve runs a server; the test is its guestd.
func serve(t *testing.T) *link {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	l := &link{HelperConn: guest.NewHelperConn(outR, inW), w: inW, lost: make(chan struct{}), freed: make(chan struct{}), end: make(chan error, 1)}
	s := guesthelper.NewTestServer(guest.NewHelperConn(inR, outW), testOps(l.freed), l.lost)
	go func() {
		l.end <- s.Run(t.Context())
		_ = inR.Close()
		_ = outW.Close()
	}()
	return l
}

func (l *link) ask(t *testing.T, m guest.HelperMessage) guest.HelperMessage {
	t.Helper()
	if err := l.Write(m); err != nil {
		t.Fatal(err)
	}
	return l.answer(t)
}

func (l *link) answer(t *testing.T) guest.HelperMessage {
	t.Helper()
	m, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (l *link) close(t *testing.T) {
	t.Helper()
	_ = l.w.Close()
	close(l.freed)
	if err := <-l.end; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func code(m guest.HelperMessage) guest.Code {
	if m.Error == nil {
		return ""
	}
	return m.Error.Code
}

func TestServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serve(t)
		m := l.ask(t, guest.HelperMessage{ID: 5, Op: "echo", Params: []byte(`{"a":1}`), Binary: []byte("xyz")})
		if m.ID != 5 || string(m.Result) != `{"a":1}` || string(m.Binary) != "xyz" || m.Error != nil {
			t.Errorf("echo: %+v", m)
		}
		if m = l.ask(t, guest.HelperMessage{ID: 6, Op: "fly"}); code(m) != guest.CodeUnsupported {
			t.Errorf("unknown: %+v", m)
		}
		if m = l.ask(t, guest.HelperMessage{ID: 7, Op: "panic"}); code(m) != guest.CodeInternal {
			t.Errorf("panic: %+v", m)
		}
		m = l.ask(t, guest.HelperMessage{ID: 8, Op: "half"})
		if code(m) != guest.CodeInternal || !bytes.Contains(m.Result, []byte(`"done":2`)) || m.Binary != nil {
			t.Errorf("half: %+v", m)
		}
		l.close(t)
	})
}

func TestServerDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serve(t)
		begin := time.Now()
		m := l.ask(t, guest.HelperMessage{ID: 1, Op: "wait", Timeout: 2 * time.Second})
		if code(m) != guest.CodeDeadline || time.Since(begin) != 2*time.Second {
			t.Errorf("wait: %+v after %v", m.Error, time.Since(begin))
		}
		begin = time.Now()
		m = l.ask(t, guest.HelperMessage{ID: 2, Op: "hang", Timeout: 2 * time.Second})
		if code(m) != guest.CodeDeadline || time.Since(begin) > 6*time.Second {
			t.Errorf("hang: %+v after %v", m.Error, time.Since(begin))
		}
		m = l.ask(t, guest.HelperMessage{ID: 3, Op: "wait"}) // a deadline there is in any case
		if code(m) != guest.CodeDeadline {
			t.Errorf("wait: %+v", m.Error)
		}
		l.close(t)
	})
}

func TestServerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serve(t)
		if err := l.Write(guest.HelperMessage{ID: 1, Op: "wait", Timeout: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, m := range []guest.HelperMessage{{ID: 9, Op: guest.OpCancel}, {ID: 1, Op: guest.OpCancel}} {
			if err := l.Write(m); err != nil {
				t.Fatal(err)
			}
		}
		if m := l.answer(t); m.ID != 1 || code(m) != guest.CodeCancelled {
			t.Errorf("cancelled: %+v", m)
		}
		l.close(t)
	})
}

func TestServerBoundsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serve(t)
		for id := range uint64(64) {
			if err := l.Write(guest.HelperMessage{ID: id + 1, Op: "wait", Timeout: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		if m := l.ask(t, guest.HelperMessage{ID: 65, Op: "echo"}); m.ID != 65 || code(m) != guest.CodeBusy {
			t.Errorf("one too many: %+v", m)
		}
		for range 64 {
			if m := l.answer(t); code(m) != guest.CodeDeadline {
				t.Errorf("wait: %+v", m)
			}
		}
		if m := l.ask(t, guest.HelperMessage{ID: 66, Op: "echo"}); m.Error != nil {
			t.Errorf("afterwards: %+v", m.Error)
		}
		l.close(t)
	})
}

func TestServerLosesDisplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serve(t)
		for id, op := range []string{"wait", "hang"} {
			if err := l.Write(guest.HelperMessage{ID: uint64(id) + 1, Op: op, Timeout: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(l.lost)
		for range 2 {
			if m := l.answer(t); code(m) != guest.CodeNoDisplay {
				t.Errorf("in flight: %+v", m.Error)
			}
		}
		if err := <-l.end; !errors.Is(err, display.ErrLost) {
			t.Errorf("the server ended with %v", err)
		}
		close(l.freed)
		_ = l.w.Close()
	})
}

func TestServerRefusesBrokenFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := serve(t)
		if _, err := l.w.Write([]byte("\xff\xff\xff\xff")); err != nil {
			t.Fatal(err)
		}
		if err := <-l.end; !errors.Is(err, guest.ErrFrame) {
			t.Errorf("the server ended with %v", err)
		}
	})
}

// FuzzServer feeds any bytes to a server: it must end, and answer what it can.
func FuzzServer(f *testing.F) {
	var wire bytes.Buffer
	c := guest.NewHelperConn(nil, &wire)
	for _, m := range []guest.HelperMessage{{ID: 1, Op: "echo", Binary: []byte("b")}, {ID: 2, Op: "half"}, {ID: 3, Op: guest.OpCancel}} {
		if err := c.Write(m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(wire.Bytes())
	f.Add([]byte("\x00\x00\x00\x02J{"))
	f.Fuzz(func(t *testing.T, in []byte) {
		ops := testOps(nil)
		delete(ops, "hang")
		s := guesthelper.NewTestServer(guest.NewHelperConn(bytes.NewReader(in), io.Discard), ops, nil)
		if err := s.Run(t.Context()); err != nil && !errors.Is(err, guest.ErrFrame) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("ended with %v", err)
		}
	})
}

func FuzzParams(f *testing.F) {
	f.Add([]byte(`{"events":[{"kind":"move","x":1}]}`))
	f.Add([]byte(`{} {}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, err := guesthelper.DecodeBatch(in)
		if err != nil && !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
			t.Errorf("refused with %v", err)
		}
	})
}
