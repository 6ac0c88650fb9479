//go:build integration

package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// TestNetworkForbidden tries, from inside, every kind of address that a guest
// must not reach. A listener on the host would answer if it could be reached.
func TestNetworkForbidden(t *testing.T) {
	d := lend(t)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	// The listener works: the host itself reaches it.
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-reached

	targets := []string{"127.0.0.1", "127.9.9.9", "0.0.0.0", "192.168.127.1", "192.168.127.254", "169.254.169.254", "::ffff:127.0.0.1", "fd00:ec2::254"}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil {
			targets = append(targets, ip.String())
		}
	}
	probe := `
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
try:
    s = socket.create_connection((host, port), timeout=8)
    s.settimeout(8)
    print("data", repr(s.recv(10)))
except OSError as e:
    print("refused", type(e).__name__)
`
	dir := d.folder(t)
	d.put(t, dir+"/probe.py", probe)
	for _, target := range targets {
		if got := d.sh(t, fmt.Sprintf("python3 %s/probe.py %s %d", dir, target, port)); !strings.HasPrefix(got, "refused") {
			t.Errorf("%s: %s", target, got)
		}
	}
	select {
	case from := <-reached:
		t.Errorf("a guest reached the host's listener (seen from %s)", from)
	default:
	}
}

// TestNetworkNames: the guest's resolver answers, through the gateway.
func TestNetworkNames(t *testing.T) {
	d := lend(t)
	if got := d.sh(t, "cat /etc/resolv.conf"); !strings.Contains(got, "192.168.127.1") {
		t.Errorf("resolv.conf: %q", got)
	}
	if got := d.sh(t, "ip -4 -o addr show scope global | awk '{print $4}'"); strings.TrimSpace(got) != "192.168.127.2/24" {
		t.Errorf("address: %q", got)
	}
}

// TestPortsOfTheGuest reaches a server on the guest's loopback: by the TCP
// WebSocket, by `vmhost forward` and by a preview ticket.
func TestPortsOfTheGuest(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	d.put(t, dir+"/www/hello.txt", "hello from inside\n")
	d.launch(t, "python3", "-m", "http.server", "8765", "--bind", "127.0.0.1", "--directory", dir+"/www")
	d.until(t, time.Minute, "the server inside", func(context.Context) error {
		if res := d.shell(t, "curl -sf http://127.0.0.1:8765/hello.txt"); res.ExitCode != 0 {
			return errors.New("not up")
		}
		return nil
	})
	t.Run("tcp", func(t *testing.T) {
		conn, err := d.Dial(t.Context(), 8765)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /hello.txt HTTP/1.0\r\n\r\n")
		all, err := io.ReadAll(conn)
		if err != nil || !strings.HasSuffix(string(all), "hello from inside\n") {
			t.Errorf("%q, %v", all, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		conn, err := d.Dial(t.Context(), 8766)
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		code(t, err, api.CodeRefused)
	})
	t.Run("preview", func(t *testing.T) {
		ticket, err := d.Preview(t.Context(), 8765, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		body, status := fetch(t, strings.TrimSuffix(ticket.URL, "/")+"/hello.txt")
		if status != http.StatusOK || body != "hello from inside\n" {
			t.Errorf("%d %q", status, body)
		}
		_, status = fetch(t, "http://"+host.Address+"/preview/not-a-ticket/hello.txt")
		if status != http.StatusNotFound && status != http.StatusUnauthorized && status != http.StatusForbidden {
			t.Errorf("a wrong ticket got %d", status)
		}
	})
	t.Run("forward", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		port, err := harness.FreePort(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, host.Bin, "--data-dir", host.Data, "--address", "http://"+host.Address, "forward", d.Info.Name, fmt.Sprintf("%d:8765", port))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if body, status := fetch(t, fmt.Sprintf("http://127.0.0.1:%d/hello.txt", port)); status != http.StatusOK || body != "hello from inside\n" {
			t.Errorf("%d %q", status, body)
		}
	})
}

func fetch(t *testing.T, url string) (string, int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return string(body), res.StatusCode
}

// TestNoPortsOnTheHost: vmhost and its machines listen on the API's port and, for
// people who watch, by TCP and UDP on one more, and on no other.
func TestNoPortsOnTheHost(t *testing.T) {
	beside(t)
	out, err := exec.CommandContext(t.Context(), "ss", "-Hltnup").Output()
	if err != nil {
		t.Fatalf("ss: %v", err)
	}
	media := "" // of viewers: one address, for UDP and TCP
	ours := append(pidsOf(t, host.Data), strconv.Itoa(host.PID()))
	for l := range strings.Lines(string(out)) {
		for _, pid := range ours {
			if strings.Contains(l, "pid="+pid+",") && !strings.Contains(l, host.Address) {
				at := strings.Fields(l)[4]
				if media != "" && at != media || pid != strconv.Itoa(host.PID()) {
					t.Errorf("listens: %s", l)
				}
				media = at
			}
		}
	}
}

// TestUploadLeavesMemoryFlat sends 2 GiB through the daemon. What other tests
// ask of it meanwhile has room below the limit.
func TestUploadLeavesMemoryFlat(t *testing.T) {
	d := lend(t)
	dir := d.folder(t)
	before := rss(t)
	peak := before
	watch := &meter{r: io.LimitReader(&pattern{}, 2<<30), every: 64 << 20, tick: func() { peak = max(peak, rss(t)) }}
	begin := time.Now()
	if _, err := d.Files().Write(t.Context(), dir+"/two-gib", watch, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("2 GiB in %s; memory %d MiB before, %d MiB at most", time.Since(begin).Round(time.Second), before>>20, peak>>20)
	if peak > before+128<<20 {
		t.Errorf("the daemon grew from %d to %d MiB", before>>20, peak>>20)
	}
}

// meter calls tick after every so many bytes.
type meter struct {
	r     io.Reader
	every int
	seen  int
	tick  func()
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if m.seen += n; m.seen >= m.every {
		m.seen = 0
		m.tick()
	}
	return n, err
}
