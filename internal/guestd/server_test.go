package guestd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd"
	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// serve runs a server until the test ends, and returns its address.
func serve(t *testing.T, cfg guestd.Config) string {
	t.Helper()
	cfg.System = system.Config{Kernel: &guesttest.Kernel{}, Generation: t.TempDir() + "/generation", Workspace: t.TempDir()}
	srv, err := guestd.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := srv.Run(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return ln.Addr().String()
}

func token(s string) func() (string, error) { return func() (string, error) { return s, nil } }

// upgrade asks for a link by hand and returns the status line's code.
func upgrade(t *testing.T, addr string, header ...string) (net.Conn, int) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: guest\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n", mux.Path, strings.Join(append(header, ""), "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return conn, resp.StatusCode
}

func TestWhoMayConnect(t *testing.T) {
	open := serve(t, guestd.Config{Token: token("right")})
	far := serve(t, guestd.Config{Token: token("right"), Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	none := serve(t, guestd.Config{Token: func() (string, error) { return "", errors.New("no configuration") }})
	for name, tt := range map[string]struct {
		addr   string
		header []string
		want   int
	}{
		"right":         {open, []string{"Authorization: Bearer right"}, http.StatusSwitchingProtocols},
		"wrong":         {open, []string{"Authorization: Bearer wrong"}, http.StatusUnauthorized},
		"longer":        {open, []string{"Authorization: Bearer right2"}, http.StatusUnauthorized},
		"no scheme":     {open, []string{"Authorization: right"}, http.StatusUnauthorized},
		"empty":         {open, []string{"Authorization: Bearer "}, http.StatusUnauthorized},
		"none":          {open, nil, http.StatusUnauthorized},
		"a browser":     {open, []string{"Authorization: Bearer right", "Origin: http://evil.example"}, http.StatusForbidden},
		"other network": {far, []string{"Authorization: Bearer right"}, http.StatusForbidden},
		"no token set":  {none, []string{"Authorization: Bearer "}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := upgrade(t, tt.addr, tt.header...); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
		})
	}
}

// TestMalformedWire sends what no WebSocket peer would; each such connection
// ends, and an honest one beside them does not notice.
func TestMalformedWire(t *testing.T) {
	addr := serve(t, guestd.Config{Token: token("right")})
	honest := guesttest.Run(t, client.Config{Token: "right", Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}})
	mask := "\x00\x00\x00\x00"
	for name, bytes := range map[string]string{
		"unmasked":        "\x81\x02{}",
		"reserved bits":   "\xf1\x80" + mask,
		"unknown opcode":  "\x83\x80" + mask,
		"long control":    "\x89\xfe\x01\x00" + mask,
		"huge length":     "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff" + mask,
		"above the limit": "\x82\xff\x00\x00\x00\x00\x00\x80\x00\x00" + mask + strings.Repeat("x", 8<<20),
		"continuation":    "\x80\x80" + mask,
		"bad json":        "\x81\x81" + mask + "{",
		"bad stream":      "\x82\x82" + mask + "\x09\x00",
	} {
		t.Run(name, func(t *testing.T) {
			conn, status := upgrade(t, addr, "Authorization: Bearer right")
			if status != http.StatusSwitchingProtocols {
				t.Fatal(status)
			}
			// The server may close before it has read all.
			_, _ = io.WriteString(conn, bytes)
			_, err := io.Copy(io.Discard, conn)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the connection was kept")
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := honest.Exec.List(ctx); err != nil || !honest.Connected() {
		t.Error(err)
	}
}

func TestOtherPathsAreNotServed(t *testing.T) {
	addr := serve(t, guestd.Config{Token: token("right")})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer right")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", resp.StatusCode)
	}
}
