// Package servertest serves a host to tests, over HTTP on loopback.
package servertest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/server"
)

// Serve serves cfg.Host until the test ends, and answers with the server's address
// and the host's first token. wrap puts another handler before the server's; nil:
// none.
func Serve(tb testing.TB, cfg server.Config, wrap func(http.Handler) http.Handler) (url, token string) {
	tb.Helper()
	cfg.Address = "127.0.0.1:0"
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := server.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	var h http.Handler = s
	if wrap != nil {
		h = wrap(s)
	}
	web := httptest.NewUnstartedServer(h)
	web.Config = server.HTTP(h, slog.New(slog.DiscardHandler))
	web.Start()
	tb.Cleanup(func() {
		web.CloseClientConnections() // streams of events would hold up the end
		web.Close()
	})
	path, err := cfg.Host.FirstToken(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return web.URL, strings.TrimSpace(string(secret))
}
