package dns

import (
	"net"
	"sync"
)

// limited closes connections beyond a number as soon as they come.
type limited struct {
	net.Listener
	slots chan struct{}
}

func newLimited(l net.Listener, n int) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, n)}
}

// Accept returns the next connection that there is room for.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slotted{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = c.Close()
		}
	}
}

type slotted struct {
	net.Conn
	release func()
}

// Close gives the slot back.
func (s *slotted) Close() error {
	s.release()
	return s.Conn.Close()
}
