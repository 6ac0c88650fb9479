//go:build cgo

package rtc_test

import (
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// proxy stands between one client and the endpoint, and spoils what goes to the
// client.
type proxy struct {
	port  int
	front *net.UDPConn // where the client sends
	back  *net.UDPConn // to the endpoint
	every int          // of these packets one is lost; 0: none
	rate  int          // bit/s; 0: no limit

	mu     sync.Mutex
	client netip.AddrPort // guarded by mu
}

// queueTime is how much waits at a slow way before more is lost.
const queueTime = 300 * time.Millisecond

func newProxy(t *testing.T, to netip.AddrPort, every, rate int) *proxy {
	t.Helper()
	front, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := front.LocalAddr().(*net.UDPAddr)
	if !ok {
		t.Fatal("no UDP address")
	}
	p := &proxy{port: addr.Port, front: front, back: back, every: every, rate: rate}
	var both sync.WaitGroup
	both.Go(p.there)
	both.Go(p.backward)
	t.Cleanup(func() {
		if err := errors.Join(front.Close(), back.Close()); err != nil {
			t.Error(err)
		}
		both.Wait()
	})
	return p
}

func (p *proxy) there() {
	buf := make([]byte, 2048)
	for {
		n, from, err := p.front.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.client = from
		p.mu.Unlock()
		_, _ = p.back.Write(buf[:n]) // like any network
	}
}

func (p *proxy) backward() {
	var free time.Time // when the way has sent what waits
	for i := 1; ; i++ {
		buf := make([]byte, 2048)
		n, err := p.back.Read(buf)
		if err != nil {
			return
		}
		if p.every > 0 && i%p.every == 0 {
			continue
		}
		now := time.Now()
		if free.Before(now) {
			free = now
		}
		if p.rate > 0 {
			if free.Sub(now) > queueTime {
				continue
			}
			free = free.Add(time.Duration(n*8) * time.Second / time.Duration(p.rate))
		}
		p.mu.Lock()
		client := p.client
		p.mu.Unlock()
		time.AfterFunc(free.Sub(now), func() { _, _ = p.front.WriteToUDPAddrPort(buf[:n], client) })
	}
}

// through sends the client to the proxy, by UDP alone.
func (p *proxy) through(desc string) string {
	port := regexp.MustCompile(`(a=candidate:\S+ \d udp \d+ \S+) \d+ `)
	return port.ReplaceAllString(without(" tcp ")(desc), "$1 "+strconv.Itoa(p.port)+" ")
}
