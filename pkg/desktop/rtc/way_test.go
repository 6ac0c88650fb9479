//go:build cgo

package rtc_test

import (
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"

	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

// way is the pair that a viewer goes by.
func (c *client) way() rtc.Pair {
	c.t.Helper()
	list := c.peer.Pairs()
	if len(list) == 0 || !list[0].Nominated {
		c.t.Fatalf("no pair is gone by: %+v", list)
	}
	return list[0]
}

// blackHole is a UDP port that takes everything and answers nothing.
func blackHole(t *testing.T) int {
	t.Helper()
	hole, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hole.Close(); err != nil {
			t.Error(err)
		}
	})
	return hole.LocalAddr().(*net.UDPAddr).Port //nolint:forcetypeassert // of a UDP socket
}

// TestBlockedUDP: where UDP goes nowhere, the viewer comes by TCP, and the pairs say
// what became of UDP.
func TestBlockedUDP(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	hole := strconv.Itoa(blackHole(t))
	port := regexp.MustCompile(`(?i)(a=candidate:\S+ \d udp \d+ \S+) \d+ `)
	lost := func(desc string) string { return port.ReplaceAllString(desc, "$1 "+hole+" ") }
	c := w.join(t, options{offer: lost, answer: lost})
	c.like(w.source.Image(), 20)
	if p := c.way(); p.Protocol != "tcp" || p.State != "succeeded" || p.Local != w.endpoint.Addr().String() {
		t.Errorf("the viewer came by %+v", p)
	}
	for _, p := range c.peer.Pairs() {
		if p.Protocol == "udp" && p.State == "succeeded" {
			t.Errorf("a way that is blocked: %+v", p)
		}
	}
}

// coturn runs Debian's TURN server with a secret until the test ends.
func coturn(t *testing.T, secret string) (port int) {
	t.Helper()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = free.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	free.Close()
	cmd := exec.CommandContext(t.Context(), "turnserver", "-n", "--no-cli", "--no-tls", "--no-dtls", "--log-file=stdout", "--simple-log",
		"--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", "--listening-port="+strconv.Itoa(port), "--allow-loopback-peers",
		"--use-auth-secret", "--static-auth-secret="+secret, "--realm=deskfork.test", "--userdb="+t.TempDir()+"/db", "--pidfile="+t.TempDir()+"/pid")
	if err := cmd.Start(); err != nil {
		t.Fatalf("Debian's package coturn is needed (scripts/deps.sh test): %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		conn, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("coturn does not listen: %v", err)
		}
	}
	return port
}

// TestTURN: a viewer that finds no way but a relay's comes through Debian's coturn,
// by UDP and by TCP, with the credentials that it was given; with older ones it
// finds none.
func TestTURN(t *testing.T) {
	const secret = "shared"
	port := coturn(t, secret)
	for _, tc := range []struct {
		name, url string
		ttl       time.Duration
		want      bool
	}{
		{"udp", "turn:127.0.0.1:%?transport=udp", time.Minute, true},
		{"tcp", "turn:127.0.0.1:%?transport=tcp", time.Minute, true},
		{"late", "turn:127.0.0.1:%?transport=udp", -time.Minute, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := strings.ReplaceAll(tc.url, "%", strconv.Itoa(port))
			w := newWorld(t, rtc.Config{TURN: []rtc.TURN{{URLs: []string{url}, Secret: secret, TTL: tc.ttl}}})
			o := options{config: webrtc.Configuration{ICETransportPolicy: webrtc.ICETransportPolicyRelay}}
			for _, s := range w.endpoint.Servers("somebody") {
				o.config.ICEServers = append(o.config.ICEServers, webrtc.ICEServer{URLs: []string{s.URL}, Username: s.Username, Credential: s.Credential})
			}
			found := ""
			o.offer = func(offer string) string { found = offer; return offer }
			c := w.join(t, o)
			if relayed := strings.Contains(found, "typ relay"); relayed != tc.want {
				t.Fatalf("a relay's address is found: %t, want %t\n%s", relayed, tc.want, found)
			}
			if tc.want {
				c.like(w.source.Image(), 20)
				if p := c.way(); p.RemoteKind != "relay" && p.RemoteKind != "prflx" || strings.HasSuffix(p.Remote, ":"+strconv.Itoa(port)) {
					t.Errorf("the viewer came by %+v", p)
				}
			}
		})
	}
}
