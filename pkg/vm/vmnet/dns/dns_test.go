package dns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mdns "github.com/miekg/dns"

	"github.com/deskfork/deskfork/pkg/vm/vmnet/dns"
)

// listen opens both transports on one free port of the loopback.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		if err == nil {
			return pc, ln
		}
		_ = ln.Close()
	}
	t.Fatal("no port is free for both transports")
	return nil, nil
}

// upstream is a real DNS server with a zone of its own.
func upstream(t *testing.T, handler mdns.HandlerFunc) string {
	t.Helper()
	pc, ln := listen(t)
	for _, srv := range []*mdns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		started, ended := make(chan struct{}), make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		go func() {
			defer close(ended)
			_ = srv.ActivateAndServe()
		}()
		<-started
		t.Cleanup(func() {
			_ = srv.Shutdown()
			<-ended
		})
	}
	return ln.Addr().String()
}

func zone(w mdns.ResponseWriter, q *mdns.Msg) {
	r := new(mdns.Msg).SetReply(q)
	name := q.Question[0].Name
	add := func(text string) {
		rr, err := mdns.NewRR(name + " 60 IN " + text)
		if err != nil {
			panic(err)
		}
		r.Answer = append(r.Answer, rr)
	}
	switch mdns.TypeToString[q.Question[0].Qtype] + " " + name {
	case "A a.test.":
		add("A 203.0.113.5")
	case "AAAA a.test.":
		add("AAAA 2001:db8::5")
	case "A metadata.test.":
		add("A 169.254.169.254")
	case "TXT big.test.":
		for i := range 40 {
			add(fmt.Sprintf("TXT \"%d %s\"", i, strings.Repeat("x", 100)))
		}
	case "MX a.test.":
		add("MX 10 mail.a.test.")
	default:
		r.Rcode = mdns.RcodeNameError
	}
	if _, ok := w.RemoteAddr().(*net.UDPAddr); ok {
		size := mdns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = int(o.UDPSize())
		}
		r.Truncate(size)
	}
	_ = w.WriteMsg(r)
}

func start(t *testing.T, cfg dns.Config) string {
	t.Helper()
	s, err := dns.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pc, ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, pc, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return ln.Addr().String()
}

func fixed(addrs ...string) func() ([]string, error) {
	return func() ([]string, error) { return addrs, nil }
}

func ask(t *testing.T, network, server, name string, qtype uint16) *mdns.Msg {
	t.Helper()
	c := mdns.Client{Net: network, Timeout: 20 * time.Second}
	r, _, err := c.Exchange(new(mdns.Msg).SetQuestion(name, qtype), server)
	if err != nil {
		t.Fatalf("%s %s: %v", network, name, err)
	}
	return r
}

// dead is an address where nobody answers: UDP and TCP are refused at once.
func dead(t *testing.T) string {
	t.Helper()
	pc, ln := listen(t)
	_ = pc.Close()
	_ = ln.Close()
	return ln.Addr().String()
}

func TestForward(t *testing.T) {
	refusing := upstream(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		_ = w.WriteMsg(new(mdns.Msg).SetRcode(q, mdns.RcodeRefused))
	})
	liar := upstream(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		r := new(mdns.Msg).SetReply(q)
		r.Question[0].Name = "other.test."
		_ = w.WriteMsg(r)
	})
	good := upstream(t, zone)
	server := start(t, dns.Config{Upstreams: fixed(dead(t), refusing, liar, good)})
	for _, tc := range []struct {
		name  string
		qtype uint16
		want  string
	}{
		{"a.test.", mdns.TypeA, "203.0.113.5"},
		{"a.test.", mdns.TypeAAAA, "2001:db8::5"},
		{"a.test.", mdns.TypeMX, "mail.a.test."},
		{"metadata.test.", mdns.TypeA, "169.254.169.254"},
		{"none.test.", mdns.TypeA, "NXDOMAIN"},
	} {
		for _, network := range []string{"udp", "tcp"} {
			t.Run(network+" "+mdns.TypeToString[tc.qtype]+" "+tc.name, func(t *testing.T) {
				if r := ask(t, network, server, tc.name, tc.qtype); !strings.Contains(r.String(), tc.want) {
					t.Errorf("want %s in\n%s", tc.want, r)
				}
			})
		}
	}
}

func TestTruncation(t *testing.T) {
	server := start(t, dns.Config{Upstreams: fixed(upstream(t, zone))})
	t.Run("udp is cut and marked", func(t *testing.T) {
		r := ask(t, "udp", server, "big.test.", mdns.TypeTXT)
		r.Compress = true // as it was on the wire
		if !r.Truncated || r.Len() > mdns.MinMsgSize {
			t.Errorf("truncated %v, %d bytes", r.Truncated, r.Len())
		}
	})
	t.Run("udp with a large buffer is whole", func(t *testing.T) {
		q := new(mdns.Msg).SetQuestion("big.test.", mdns.TypeTXT).SetEdns0(8192, false)
		r, _, err := (&mdns.Client{UDPSize: 8192}).Exchange(q, server)
		if err != nil {
			t.Fatal(err)
		}
		if r.Truncated || len(r.Answer) != 40 {
			t.Errorf("truncated %v, %d answers", r.Truncated, len(r.Answer))
		}
	})
	t.Run("tcp is whole", func(t *testing.T) {
		if r := ask(t, "tcp", server, "big.test.", mdns.TypeTXT); r.Truncated || len(r.Answer) != 40 {
			t.Errorf("truncated %v, %d answers", r.Truncated, len(r.Answer))
		}
	})
}

func TestStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  dns.Config
		q    *mdns.Msg
		want int
	}{
		"refuse":        {dns.Config{Refuse: true, Upstreams: fixed()}, new(mdns.Msg).SetQuestion("a.test.", mdns.TypeA), mdns.RcodeRefused},
		"all dead":      {dns.Config{Upstreams: fixed(dead(t))}, new(mdns.Msg).SetQuestion("a.test.", mdns.TypeA), mdns.RcodeServerFailure},
		"no upstream":   {dns.Config{Upstreams: fixed()}, new(mdns.Msg).SetQuestion("a.test.", mdns.TypeA), mdns.RcodeServerFailure},
		"unreadable":    {dns.Config{Upstreams: func() ([]string, error) { return nil, errors.New("gone") }}, new(mdns.Msg).SetQuestion("a.test.", mdns.TypeA), mdns.RcodeServerFailure},
		"zone transfer": {dns.Config{Upstreams: fixed(dead(t))}, new(mdns.Msg).SetAxfr("a.test."), mdns.RcodeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, tc.cfg)
			for _, network := range []string{"udp", "tcp"} {
				r, _, err := (&mdns.Client{Net: network}).Exchange(tc.q, server)
				if err != nil {
					t.Fatal(err)
				}
				if r.Rcode != tc.want {
					t.Errorf("%s: %s, want %s", network, mdns.RcodeToString[r.Rcode], mdns.RcodeToString[tc.want])
				}
			}
		})
	}
}

func TestInFlightIsBounded(t *testing.T) {
	release := make(chan struct{})
	var waiting atomic.Int32
	arrived := make(chan struct{}, 10)
	up := upstream(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		waiting.Add(1)
		arrived <- struct{}{}
		<-release
		zone(w, q)
	})
	server := start(t, dns.Config{Upstreams: fixed(up), MaxInFlight: 2})
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- ask(t, "udp", server, "a.test.", mdns.TypeA).Rcode }()
	}
	<-arrived
	<-arrived
	if r := ask(t, "udp", server, "a.test.", mdns.TypeA); r.Rcode != mdns.RcodeServerFailure {
		t.Errorf("third query: %s", mdns.RcodeToString[r.Rcode])
	}
	close(release)
	for range 2 {
		if r := <-answers; r != mdns.RcodeSuccess {
			t.Errorf("first queries: %s", mdns.RcodeToString[r])
		}
	}
	if n := waiting.Load(); n != 2 {
		t.Errorf("%d queries reached the upstream", n)
	}
}

func TestGarbageIsSurvived(t *testing.T) {
	server := start(t, dns.Config{Upstreams: fixed(upstream(t, zone))})
	c, err := net.Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, b := range [][]byte{{}, {1}, make([]byte, 11), make([]byte, 12), []byte(strings.Repeat("\xc0\x0c", 300))} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if r := ask(t, "udp", server, "a.test.", mdns.TypeA); r.Rcode != mdns.RcodeSuccess {
		t.Errorf("after garbage: %s", r)
	}
}

func TestResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"nameserver 192.0.2.1\nsearch x\nnameserver 2001:db8::1\n", []string{"192.0.2.1:53", "[2001:db8::1]:53"}},
		{"nameserver 192.0.2.9\n", []string{"192.0.2.9:53"}}, // read again
		{"# empty\n", nil},
	} {
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := dns.ResolvConf(path)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != (tc.want == nil) {
			t.Errorf("%q: %v (-want +got):\n%s", tc.text, err, diff)
		}
	}
}
