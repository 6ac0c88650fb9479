package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// problemOf reads a problem and checks that it is a whole one.
func problemOf(t *testing.T, resp *http.Response) api.Error {
	t.Helper()
	if ct := resp.Header.Get("Content-Type"); ct != api.ErrorMIME {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s with content type %q: %s", resp.Status, ct, body)
	}
	var e api.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		t.Fatal(err)
	}
	if e.Status != resp.StatusCode || e.Title == "" || e.Code == "" || e.Detail == "" {
		t.Errorf("problem is %+v, status %d", e, resp.StatusCode)
	}
	return e
}

func TestProblems(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	reader := d.tokenOf(t, "default", "read")
	tests := []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     api.Code
		place                    string // of the first single fault
	}{
		{"unknown route", "GET", "/v2/x", "", nil, 404, api.CodeNotFound, ""},
		{"wrong method", "PATCH", "/v1/desktops", "{}", nil, 405, api.CodeInvalid, ""},
		{"no token", "GET", "/v1/info", "", []string{"Authorization", ""}, 401, api.CodeUnauthorized, ""},
		{"bad token", "GET", "/v1/info", "", []string{"Authorization", "Bearer dfk_no"}, 401, api.CodeUnauthorized, ""},
		{"token in the URL", "GET", "/v1/info?token=" + d.Token, "", []string{"Authorization", ""}, 401, api.CodeUnauthorized, ""},
		{"scope", "DELETE", "/v1/desktops/one", "", []string{"Authorization", "Bearer " + reader}, 403, api.CodeForbidden, ""},
		{"admin scope", "GET", "/v1/tokens", "", []string{"Authorization", "Bearer " + reader}, 403, api.CodeForbidden, ""},
		{"foreign host", "GET", "/v1/info", "", []string{"Host", "evil.example"}, 403, api.CodeForbidden, ""},
		{"foreign origin", "GET", "/v1/info", "", []string{"Origin", "http://evil.example"}, 403, api.CodeForbidden, ""},
		{"null origin", "GET", "/v1/info", "", []string{"Origin", "null"}, 403, api.CodeForbidden, ""},
		{"unknown desktop", "GET", "/v1/desktops/nope", "", nil, 404, api.CodeNotFound, ""},
		{"no JSON", "POST", "/v1/desktops", "{", nil, 422, api.CodeInvalid, ""},
		{"missing member", "POST", "/v1/desktops", "{}", nil, 422, api.CodeInvalid, "body"},
		{"image and snapshot", "POST", "/v1/desktops", `{"image":"test","snapshot":"x"}`, nil, 422, api.CodeInvalid, "body"},
		{"unknown state", "GET", "/v1/desktops?state=asleep", "", nil, 422, api.CodeInvalid, "query.state"},
		{"bad member", "POST", "/v1/desktops", `{"image":"test","shape":"giant"}`, nil, 422, api.CodeInvalid, "body.shape"},
		{"unknown member", "POST", "/v1/desktops", `{"image":"test","colour":1}`, nil, 422, api.CodeInvalid, "body.colour"},
		{"bad display", "POST", "/v1/desktops", `{"image":"test","display":{"width":1,"height":800}}`, nil, 422, api.CodeInvalid, "body.display.width"},
		{"bad env", "POST", "/v1/desktops", `{"image":"test","env":{"1":"x"}}`, nil, 422, api.CodeInvalid, "body.env.1"},
		{"unknown image", "POST", "/v1/desktops", `{"image":"nope"}`, nil, 404, api.CodeNotFound, ""},
		{"big body", "POST", "/v1/desktops", `{"image":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413, api.CodeTooLarge, ""},
		{"bad timeout", "GET", "/v1/desktops/one/wait?timeout=soon", "", nil, 422, api.CodeInvalid, "query.timeout"},
		{"bad shot", "GET", "/v1/desktops/one/screenshot?format=gif", "", nil, 422, api.CodeInvalid, "query.format"},
		{"neither argv nor shell", "POST", "/v1/desktops/one/exec", `{}`, nil, 422, api.CodeInvalid, ""},
		{"no program", "POST", "/v1/desktops/one/exec", `{"argv":["/no/such"]}`, nil, 404, api.CodeNotFound, ""},
		{"no file", "GET", "/v1/desktops/one/files?path=/no/such", "", nil, 404, api.CodeNotFound, ""},
		{"a directory", "GET", "/v1/desktops/one/files?path=/", "", nil, 422, api.CodeInvalid, ""},
		{"no path", "GET", "/v1/desktops/one/files", "", nil, 422, api.CodeInvalid, "query.path"},
		{"stale epoch", "POST", "/v1/desktops/one/input", `{"actions":[{"kind":"click"}],"epoch":9}`, nil, 409, api.CodeControlHeld, ""},
		{"stale epoch header", "PUT", "/v1/desktops/one/clipboard", "x", []string{"Deskfork-Epoch", "9", "Content-Type", "text/plain"}, 409, api.CodeControlHeld, ""},
		{"no socket", "GET", "/v1/desktops/one/tcp/80", "", nil, 426, api.CodeInvalid, ""},
		{"unknown exec", "GET", "/v1/desktops/one/execs/nope", "", nil, 404, api.CodeNotFound, ""},
		{"unknown ticket", "GET", "/preview/nope/", "", nil, 401, api.CodeUnauthorized, ""},
		{"bad event number", "GET", "/v1/events?after=x", "", nil, 422, api.CodeInvalid, "query.after"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := d.do(t, tt.method, tt.path, tt.body, tt.header...)
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			e := problemOf(t, resp)
			if e.Code != tt.code {
				t.Errorf("code %q, want %q: %s", e.Code, tt.code, e.Detail)
			}
			if tt.place != "" && (len(e.Errors) == 0 || e.Errors[0].Location != tt.place) {
				t.Errorf("faults are %+v, want one at %s", e.Errors, tt.place)
			}
			if resp.Header.Get(api.HeaderRequestID) == "" {
				t.Error("no request id")
			}
		})
	}
	resp := d.do(t, "PATCH", "/v1/desktops", "")
	if !strings.Contains(resp.Header.Get("Allow"), "POST") {
		t.Errorf("Allow is %q", resp.Header.Get("Allow"))
	}
}

func TestHostAndOrigin(t *testing.T) {
	external, err := url.Parse("https://desks.example")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, func(c *server.Config) {
		c.ExternalURL = external
		c.AllowedHosts = []string{"Other.example"}
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	base := strings.TrimPrefix(d.HTTP.URL, "http://")
	_, port, err := net.SplitHostPort(base)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		header []string
		status int
	}{
		{"own address", []string{"Host", base}, 200},
		{"localhost", []string{"Host", "localhost:" + port}, 200},
		{"loopback of IPv6", []string{"Host", "[::1]:" + port}, 200},
		{"external", []string{"Host", "desks.example"}, 200},
		{"allowed", []string{"Host", "other.example:80"}, 200},
		{"other address", []string{"Host", "10.0.0.1"}, 403},
		{"rebound name", []string{"Host", "evil.example"}, 403},
		{"own origin", []string{"Host", base, "Origin", "http://" + base}, 200},
		{"external origin", []string{"Origin", "https://desks.example"}, 200},
		{"other scheme", []string{"Host", "localhost:" + port, "Origin", "https://localhost:" + port}, 403},
		{"other port", []string{"Host", "localhost:" + port, "Origin", "http://localhost:1"}, 403},
		{"scheme by proxy", []string{"Host", "localhost", "Origin", "https://localhost", "X-Forwarded-Proto", "https"}, 200},
		{"host by proxy", []string{"Host", "inner", "X-Forwarded-Host", "desks.example"}, 200},
		{"foreign host by proxy", []string{"Host", base, "X-Forwarded-Host", "evil.example"}, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := d.do(t, "GET", "/v1/info", "", tt.header...)
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
		})
	}
	t.Run("untrusted proxy", func(t *testing.T) {
		plain := newDoorOver(t, d.Fixture)
		if resp := plain.do(t, "GET", "/v1/info", "", "Host", "inner", "X-Forwarded-Host", "localhost"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("status %d, want 403", resp.StatusCode)
		}
	})
}

// TestDocument proves that the OpenAPI document has every route of the mux.
func TestDocument(t *testing.T) {
	d := newDoor(t)
	var doc struct {
		OpenAPI string                                `json:"openapi"`
		Paths   map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.NewDecoder(d.do(t, "GET", "/openapi.json", "").Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	// The document itself and pages for people and machines are no calls.
	pages := []string{
		"/openapi.json", "/openapi.yaml", "/openapi-3.0.json", "/openapi-3.0.yaml", "/docs", "/healthz", "/metrics",
		"/{$}", "/view/{desktop}", "/assets/{file}",
	}
	routes := 0
	for _, r := range d.Server.Routes() {
		if slices.Contains(pages, r.Path) {
			continue
		}
		routes++
		path := strings.ReplaceAll(r.Path, "...}", "}")
		methods := []string{strings.ToLower(r.Method)}
		if r.Method == "" {
			methods = []string{"get", "post", "put", "patch", "delete"}
		}
		for _, m := range methods {
			if _, ok := doc.Paths[path][m]; !ok {
				t.Errorf("the document lacks %s %s", m, path)
			}
		}
	}
	if routes < 40 {
		t.Errorf("only %d routes", routes)
	}
	if resp := d.do(t, "GET", "/docs", "", "Authorization", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("docs answer %d", resp.StatusCode)
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t, func(c *server.Config) {
		c.Limits = server.Limits{Requests: 4, Queue: 8, Wait: time.Second}
	})
	tr := &http.Transport{MaxConnsPerHost: 0}
	defer tr.CloseIdleConnections()
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.HTTP.URL+"/v1/desktops", nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+d.Token)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusTooManyRequests {
				var e api.Error
				if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != api.CodeRateLimited || !e.Retryable {
					t.Errorf("refusal is %+v, %v", e, err)
				}
				if resp.Header.Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[resp.StatusCode]++
		})
	}
	all.Wait()
	if statuses[200] == 0 || statuses[200]+statuses[429] != 1000 {
		t.Errorf("statuses are %v", statuses)
	}
	if resp := d.do(t, "GET", "/v1/desktops", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

// TestUploadMemory sends 256 MiB in and out and watches the heap.
func TestUploadMemory(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	path := filepath.Join(t.TempDir(), "big")
	const size = 256 << 20
	stop := make(chan struct{})
	peak := make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	desk := d.Client.Desktop("one")
	info, err := desk.Files().Write(t.Context(), path, io.LimitReader(zeros{}, size), client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != size {
		t.Errorf("%d bytes arrived, want %d", info.Size, size)
	}
	r, err := desk.Files().Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != size {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	r.Close()
	close(stop)
	// Client, server and guest share this heap.
	if most := <-peak; most > before.HeapAlloc+64<<20 {
		t.Errorf("the heap grew from %d to %d MiB", before.HeapAlloc>>20, most>>20)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestVanishingClient breaks an upload in its middle.
func TestVanishingClient(t *testing.T) {
	hosttest.NoLeaks(t)
	log := &logged{seen: make(chan map[string]string, 16)}
	d := newDoor(t, func(c *server.Config) { c.Logger = slog.New(log) })
	d.Create(api.CreateDesktop{Name: "one"})
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.HTTP.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	// Far more than what the sockets on the way can hold, so that the guest has
	// begun to write when all but the rest was sent.
	_, err = fmt.Fprintf(conn, "PUT /v1/desktops/one/files?path=%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 64000000\r\n\r\n%s",
		url.QueryEscape(path), d.Token, strings.Repeat("n", 32_000_000))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	entry := <-log.seen
	if entry["code"] != string(api.CodeCancelled) || entry["level"] != "DEBUG" || entry["stage"] != "upload" {
		t.Errorf("the log says %v", entry)
	}
	var left []string
	t.Cleanup(func() { t.Logf("left: %v", left) })
	waitFor(t, func() bool {
		left = names(t, dir)
		return len(left) == 1
	})
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("the file is %.20q, %v", text, err)
	}
}

// logged hands over what is logged.
type logged struct{ seen chan map[string]string }

func (*logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(_ context.Context, r slog.Record) error {
	entry := map[string]string{"level": r.Level.String(), "msg": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		entry[a.Key] = a.Value.String()
		return true
	})
	l.seen <- entry
	return nil
}

func (l *logged) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *logged) WithGroup(string) slog.Handler { return l }

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// waitFor asks until a condition holds, for what happens in another process or
// goroutine that tells nobody.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come to pass")
		}
	}
}
