//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// rss is the daemon's resident memory in bytes.
func rss(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", host.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// descriptors counts the daemon's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", host.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestCreateRefusals(t *testing.T) {
	beside(t)
	for _, tt := range []struct {
		name string
		spec api.CreateDesktop
		code api.Code
		says string
	}{
		{"unknown image", api.CreateDesktop{Image: "no-such-image"}, api.CodeNotFound, "no-such-image"},
		{"bad name", api.CreateDesktop{Image: "debian-xfce", Name: "Has Spaces"}, api.CodeInvalid, "name"},
		{"bad shape", api.CreateDesktop{Image: "debian-xfce", Shape: "huge"}, api.CodeInvalid, "shape"},
		{"bad display", api.CreateDesktop{Image: "debian-xfce", Display: &api.Display{Width: 1, Height: 1}}, api.CodeInvalid, "display"},
		{"name taken", api.CreateDesktop{Image: "debian-xfce", Name: "main"}, api.CodeConflict, "main"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Labels = map[string]string{"suite": "refused"}
			_, err := host.Client.Desktops().Create(t.Context(), tt.spec)
			e := problem(t, err)
			if e.Code != tt.code {
				t.Errorf("code %s, want %s", e.Code, tt.code)
			}
			if !strings.Contains(fmt.Sprintf("%+v", *e), tt.says) {
				t.Errorf("%+v does not speak of %q", *e, tt.says)
			}
		})
	}
	all, err := host.Client.Desktops().List(t.Context(), client.Filter{Labels: map[string]string{"suite": "refused"}})
	if err != nil || len(all) != 0 {
		t.Errorf("desktops after refusals: %+v, %v", all, err)
	}
}

// TestPathsStayValid: odd paths give typed errors.
func TestPathsStayValid(t *testing.T) {
	d := lend(t)
	for _, path := range []string{"", "/no/such/file", "/etc/shadow/x", "/proc/self/mem\x00x", strings.Repeat("x", 5000)} {
		if _, err := d.Files().Read(t.Context(), path); err == nil {
			t.Errorf("reading %.20q succeeded", path)
		} else if e := new(api.Error); !asAPI(err, &e) || e.Code == api.CodeInternal {
			t.Errorf("reading %.20q: %v", path, err)
		}
	}
}

func asAPI(err error, e **api.Error) bool {
	a, ok := err.(*api.Error) //nolint:errorlint // the client returns it bare
	if ok {
		*e = a
	}
	return ok
}

// TestManyRequests sends 1,000 at once: each is answered, nothing leaks, the
// desktop is as it was, and the tests beside this one on another desktop do not
// notice.
func TestManyRequests(t *testing.T) {
	d := lend(t)
	before := descriptors(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcome := map[string]int{}
	for i := range 1000 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			var err error
			switch i % 4 {
			case 0:
				_, err = d.Exec(ctx, "true")
			case 1:
				_, err = d.Screenshot(ctx)
			case 2:
				_, err = d.Get(ctx)
			default:
				_, err = d.Files().List(ctx, "/etc")
			}
			what := "ok"
			if e := new(api.Error); asAPI(err, &e) {
				what = string(e.Code)
			} else if err != nil {
				what = "other: " + err.Error()
			}
			mu.Lock()
			outcome[what]++
			mu.Unlock()
		})
	}
	wg.Wait()
	t.Logf("outcomes: %v", outcome)
	for what, n := range outcome {
		if what != "ok" && what != string(api.CodeRateLimited) {
			t.Errorf("%d × %s", n, what)
		}
	}
	if outcome["ok"] == 0 {
		t.Error("none succeeded")
	}
	if got := d.sh(t, "echo fine"); got != "fine\n" {
		t.Errorf("afterwards: %q", got)
	}
	http.DefaultClient.CloseIdleConnections()
	d.until(t, time.Minute, "descriptors", func(context.Context) error {
		if now := descriptors(t); now > before+100 {
			return fmt.Errorf("%d open files, %d before", now, before)
		}
		return nil
	})
}

// TestRawRequests sends what no client of ours would.
func TestRawRequests(t *testing.T) {
	beside(t)
	token, err := os.ReadFile(host.Data + "/token")
	if err != nil {
		t.Fatal(err)
	}
	auth := "Authorization: Bearer " + strings.TrimSpace(string(token)) + "\r\n"
	local := "Host: " + host.Address + "\r\n"
	for _, tt := range []struct{ name, request, want string }{
		{"no token", "GET /v1/desktops HTTP/1.1\r\n" + local + "\r\n", "401"},
		{"wrong token", "GET /v1/desktops HTTP/1.1\r\n" + local + "Authorization: Bearer x\r\n\r\n", "401"},
		{"foreign host", "GET /v1/desktops HTTP/1.1\r\nHost: evil.example\r\n" + auth + "\r\n", "403"},
		{"foreign origin", "GET /v1/desktops HTTP/1.1\r\n" + local + auth + "Origin: https://evil.example\r\n\r\n", "403"},
		{"no such route", "GET /v1/nothing HTTP/1.1\r\n" + local + auth + "\r\n", "404"},
		{"wrong method", "PATCH /v1/desktops HTTP/1.1\r\n" + local + auth + "\r\n", "405"},
		{"broken json", "POST /v1/desktops HTTP/1.1\r\n" + local + auth + "Content-Type: application/json\r\nContent-Length: 4\r\n\r\n{\"a:", "4"},
		{"huge json", "POST /v1/desktops HTTP/1.1\r\n" + local + auth + "Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n" + strings.Repeat(" ", 2<<20), "413"},
		{"not http", "\x16\x03\x01\x02\x00garbage\r\n\r\n", "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", host.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
			_, _ = io.WriteString(conn, tt.request)
			reply := make([]byte, 4096)
			n, _ := io.ReadAtLeast(conn, reply, 12)
			status, rest, _ := bytes.Cut(reply[:n], []byte("\r\n"))
			if !strings.HasPrefix(strings.TrimPrefix(string(status), "HTTP/1.1 "), tt.want) {
				t.Errorf("%s, want %s\n%s", status, tt.want, rest)
			}
			if bytes.Contains(reply[:n], bytes.TrimSpace(token)) {
				t.Error("the reply holds the token")
			}
		})
	}
}

// TestTokenStaysSecret: neither the daemon's log nor the guest holds a token.
func TestTokenStaysSecret(t *testing.T) {
	beside(t)
	token, err := os.ReadFile(host.Data + "/token")
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(token))
	log, err := os.ReadFile(host.Data + "/vmhost.log")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), secret) {
		t.Error("the log holds the token")
	}
	if info, err := os.Stat(host.Data + "/token"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	out, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", host.PID()))
	if err != nil || strings.Contains(string(out), secret) {
		t.Errorf("command line: %v", err)
	}
}
