package preview_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/preview"
	"github.com/deskfork/deskfork/pkg/api"
)

// ask sends a request with headers through a preview of app and returns the
// headers that app saw and those of the answer.
func ask(t *testing.T, header, answer http.Header) (saw, got http.Header) {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		saw = r.Header.Clone()
		maps.Copy(w.Header(), answer)
	}))
	defer app.Close()
	h := preview.New(func(ctx context.Context, _ ticket.Grant) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", app.Listener.Addr().String())
	}, slog.New(slog.DiscardHandler))
	r := httptest.NewRequest(http.MethodGet, "/preview/T/page", nil)
	r.SetPathValue("ticket", "T")
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(preview.With(r.Context(), ticket.Grant{Desktop: "d1", Port: 80})))
	res := w.Result()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("answer %d, %v", res.StatusCode, err)
	}
	return saw, res.Header
}

func TestRequestKeepsOurSecrets(t *testing.T) {
	ours := token.New()
	tests := []struct {
		name, header string
		sent         []string
		want         []string
	}{
		{"cookies of the host's other servers", "Cookie", []string{"session=1"}, nil},
		{"our token", "Authorization", []string{"Bearer " + ours}, nil},
		{"our token under another scheme", "Authorization", []string{"token " + ours}, nil},
		{"the password of a proxy before us", "Authorization", []string{"Basic dTpw"}, nil},
		{"the page's own token", "Authorization", []string{"token page"}, []string{"token page"}},
		{"the ticket", "Referer", []string{"http://h/preview/T/"}, nil},
		{"our token as subprotocol", "Sec-Websocket-Protocol", []string{api.SubprotocolToken + ours}, nil},
		{"our token among subprotocols", "Sec-Websocket-Protocol", []string{"a, " + api.SubprotocolToken + ours, "b"}, []string{"a, b"}},
		{"a header of the page", "X-Page", []string{"1"}, []string{"1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			saw, _ := ask(t, http.Header{tt.header: tt.sent}, nil)
			if diff := cmp.Diff(tt.want, saw.Values(tt.header)); diff != "" {
				t.Errorf("the guest saw (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswerIsConfined(t *testing.T) {
	bad := http.Header{}
	for _, name := range []string{
		"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc",
		"Www-Authenticate", "Nel", "Report-To", "Reporting-Endpoints",
	} {
		bad.Set(name, "guest")
	}
	bad.Set("Content-Security-Policy", "default-src *")
	bad.Set("Etag", `"1"`)
	_, got := ask(t, nil, bad)
	for name := range bad {
		if name != "Etag" && name != "Content-Security-Policy" && got.Get(name) != "" {
			t.Errorf("%s came through", name)
		}
	}
	if got.Get("Etag") != `"1"` || len(got.Values("Content-Security-Policy")) != 2 || got.Get("Access-Control-Allow-Origin") != "null" {
		t.Errorf("headers are %v", got)
	}
}
