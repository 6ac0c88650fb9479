//go:build cgo

package watch_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/watch"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// door is the routes over one desktop with a screen that a test draws on.
type door struct {
	url    string
	source *videotest.Source

	mu    sync.Mutex
	holds map[string]context.CancelFunc // guarded by mu; of calls and viewers, by secret
	left  int                           // guarded by mu; viewers that have
}

// visit is one of a viewer who may only look.
type visit struct {
	stream *stream.Stream
	left   func()
}

func (v visit) Stream() *stream.Stream { return v.stream }
func (v visit) Control() rtc.Control   { return nil }
func (v visit) Leave()                 { v.left() }

func newDoor(t *testing.T, media bool) *door {
	t.Helper()
	d := &door{source: videotest.NewSource(videotest.Screen(640, 400, 1)), holds: map[string]context.CancelFunc{}}
	show, err := stream.New(stream.Config{Source: d.source})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := show.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		run.Wait()
	})
	cfg := watch.Config{Beat: time.Minute, Join: func(r *http.Request, _ string) (watch.Visit, error) {
		desktop := r.PathValue("desktop")
		if desktop == "two" || gate.Of(r.Context()).Principal.Project != "mine" {
			return nil, api.Errorf(api.CodeNotFound, "no such desktop")
		}
		v := visit{stream: show, left: func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.left++
		}}
		if desktop == "blind" {
			v.stream = nil
		}
		return v, nil
	}}
	if media {
		cfg.Endpoint, err = rtc.Open(t.Context(), rtc.Config{
			Listen: "127.0.0.1:0", STUN: []string{"stun:stun.example"}, TURN: []rtc.TURN{{URLs: []string{"turn:turn.example"}, Secret: "s"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := cfg.Endpoint.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	table := route.New(route.Config{Enter: d.enter, BodyIdle: time.Minute, Refused: func() {}})
	watch.Register(table, cfg)
	srv := httptest.NewServer(&gate.Access{Next: table, Logger: slog.New(slog.DiscardHandler), Metrics: metric.New(func() map[string]int { return nil }), Path: func(r *http.Request) string { return r.URL.Path }})
	t.Cleanup(srv.Close)
	d.url = srv.URL
	return d
}

// Secrets of tokens, each of a project of that name.
const (
	mine  = token.Prefix + "mine"
	other = token.Prefix + "other"
)

// enter knows who has a secret.
func (d *door) enter(ctx context.Context, secret string) (token.Principal, context.Context, func(), error) {
	if secret != mine && secret != other {
		return token.Principal{}, ctx, nil, api.Errorf(api.CodeUnauthorized, "unknown token")
	}
	held, cancel := context.WithCancelCause(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds[secret] = func() { cancel(api.Errorf(api.CodeUnauthorized, "the token was revoked")) }
	name := strings.TrimPrefix(secret, token.Prefix)
	return token.Principal{TokenID: name, Project: name, Scopes: []string{token.ScopeRead}}, held, func() {
		cancel(nil)
	}, nil
}

// do makes a call; headers are pairs of name and value.
func (d *door) do(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+mine)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// offer is one of a browser, shortened.
const offer = `v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0
m=video 9 UDP/TLS/RTP/SAVPF 96
c=IN IP4 0.0.0.0
a=ice-ufrag:abcd
a=ice-pwd:abcdefghijklmnopqrstuvwx
a=fingerprint:sha-256 00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF
a=setup:actpass
a=mid:0
a=recvonly
a=rtcp-mux
a=rtpmap:96 VP8/90000
a=rtcp-fb:96 nack pli
`

func sdp(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

const whep = "/v1/desktops/one/whep"

// TestWHEP: an offer is answered as the draft says, addresses are taken, and the end
// is the end.
func TestWHEP(t *testing.T) {
	d := newDoor(t, true)
	resp, answer := d.do(t, "POST", whep, sdp(offer), "Content-Type", "application/sdp", "Origin", "https://player.example")
	if resp.StatusCode != http.StatusCreated || resp.Header.Get("Content-Type") != "application/sdp" {
		t.Fatalf("%s: %s", resp.Status, answer)
	}
	for _, want := range []string{"a=sendonly", "VP8/90000", "a=candidate:", "a=rtcp-fb:96 nack pli", "a=setup:active"} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer lacks %s:\n%s", want, answer)
		}
	}
	h := resp.Header
	location, tag := h.Get("Location"), h.Get("ETag")
	if !strings.HasPrefix(location, whep+"/") || tag == "" || h.Get("Accept-Patch") != "application/trickle-ice-sdpfrag" {
		t.Errorf("headers %v", h)
	}
	links := strings.Join(h.Values("Link"), "\n")
	for _, want := range []string{`<stun:stun.example>; rel="ice-server"`, `<turn:turn.example>; rel="ice-server"; username="`, `credential-type="password"`} {
		if !strings.Contains(links, want) {
			t.Errorf("the links lack %s:\n%s", want, links)
		}
	}
	if h.Get("Access-Control-Allow-Origin") != "https://player.example" || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Location") {
		t.Errorf("headers %v", h)
	}
	const fragment = "a=ice-ufrag:abcd\na=ice-pwd:abcdefghijklmnopqrstuvwx\nm=video 9 UDP/TLS/RTP/SAVPF 0\na=mid:0\na=candidate:1 1 udp 2130706431 127.0.0.1 9 typ host\na=end-of-candidates\n"
	for _, tc := range []struct {
		name, body string
		status     int
		header     []string
	}{
		{"addresses", sdp(fragment), 204, []string{"If-Match", tag}},
		{"of another session", sdp(fragment), 412, []string{"If-Match", `"zzzz"`}},
		{"a restart", sdp(strings.ReplaceAll(fragment, "abcd\n", "wxyz\n")), 422, nil},
		{"nothing", "", 400, nil},
		{"an address that is none", sdp(strings.ReplaceAll(fragment, "2130706431", "x")), 400, nil},
		{"another type", sdp(fragment), 415, []string{"Content-Type", "application/sdp"}},
		{"another project", sdp(fragment), 404, []string{"Authorization", "Bearer " + other}},
		{"nobody", sdp(fragment), 401, []string{"Authorization", "Bearer " + token.Prefix + "who"}},
	} {
		resp, body := d.do(t, "PATCH", location, tc.body, append([]string{"Content-Type", "application/trickle-ice-sdpfrag"}, tc.header...)...)
		if resp.StatusCode != tc.status {
			t.Errorf("%s: %s %s", tc.name, resp.Status, body)
		}
	}
	resp, body := d.do(t, "GET", location, "")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"connected":false,"codec":"vp8","level":"high","frames":0`) ||
		!strings.Contains(body, `"viewer":"127.0.0.1:9","viewer_kind":"host"`) {
		t.Errorf("status: %s %s", resp.Status, body)
	}
	for _, tc := range []struct {
		status int
		header []string
	}{{404, []string{"Authorization", "Bearer " + other}}, {200, nil}, {404, nil}} {
		if resp, body := d.do(t, "DELETE", location, "", tc.header...); resp.StatusCode != tc.status {
			t.Errorf("DELETE: %s %s, want %d", resp.Status, body, tc.status)
		}
	}
}

// TestWHEPRefused: what cannot be answered.
func TestWHEPRefused(t *testing.T) {
	d := newDoor(t, true)
	for _, tc := range []struct {
		name, path, body string
		status           int
		header           []string
	}{
		{"no codec fits", whep, strings.ReplaceAll(offer, "VP8", "H264"), 406, nil},
		{"no offer", whep, "hello", 400, nil},
		{"another type", whep, offer, 415, []string{"Content-Type", "text/plain"}},
		{"no such desktop", "/v1/desktops/two/whep", offer, 404, nil},
		{"no picture", "/v1/desktops/blind/whep", offer, 501, nil},
		{"too long", whep, strings.Repeat("a", 65<<10), 413, nil},
		{"no token", whep, offer, 401, []string{"Authorization", ""}},
	} {
		resp, body := d.do(t, "POST", tc.path, sdp(tc.body), append([]string{"Content-Type", "application/sdp"}, tc.header...)...)
		if resp.StatusCode != tc.status || resp.Header.Get("Content-Type") != api.ErrorMIME {
			t.Errorf("%s: %s %s", tc.name, resp.Status, body)
		}
	}
	resp, _ := d.do(t, "OPTIONS", whep, "", "Authorization", "", "Origin", "https://player.example")
	if h := resp.Header; resp.StatusCode != http.StatusNoContent || h.Get("Accept-Post") != "application/sdp" || h.Get("Access-Control-Allow-Methods") != "POST" {
		t.Errorf("OPTIONS: %s %v", resp.Status, h)
	}
	none := newDoor(t, false)
	if resp, body := none.do(t, "POST", whep, sdp(offer), "Content-Type", "application/sdp"); resp.StatusCode != http.StatusNotImplemented || !strings.Contains(body, "--media-listen") {
		t.Errorf("without an endpoint: %s %s", resp.Status, body)
	}
}

// TestRevoked: a viewer ends with its token, though the call that made it is over.
func TestRevoked(t *testing.T) {
	d := newDoor(t, true)
	resp, _ := d.do(t, "POST", whep, sdp(offer), "Content-Type", "application/sdp")
	d.mu.Lock()
	revoke := d.holds[mine]
	d.mu.Unlock()
	revoke()
	end := time.After(20 * time.Second)
wait:
	for {
		d.mu.Lock()
		left := d.left
		d.mu.Unlock()
		if left == 1 {
			break wait
		}
		select {
		case <-end:
			t.Fatal("the viewer goes on")
		case <-time.After(20 * time.Millisecond):
		}
	}
	if resp, _ := d.do(t, "DELETE", resp.Header.Get("Location"), ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a viewer that has left: %s", resp.Status)
	}
}
