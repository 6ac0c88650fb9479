package mux_test

import (
	"errors"
	"io"
	"testing"

	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// TestCloseReadIsNoEnd: whose bytes were dropped before they were read does not
// see the end that came behind them.
func TestCloseReadIsNoEnd(t *testing.T) {
	s, wire := start(t, mux.Config{})
	p, err := s.Open(soon(t), "wait", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Cancel()
	const stream, fin = 1, 1
	if err := wire.peer.Write(true, []byte{stream, fin}, []byte("data")); err != nil {
		t.Fatal(err)
	}
	if err := call(t, s, "echo", soon(t)); err != nil { // its answer comes behind
		t.Fatal(err)
	}
	if err := p.Streams[0].CloseRead(); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Streams[0].Read(make([]byte, 9)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
