package client_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/deskfork/deskfork/pkg/api/client"
)

// TestWithTLSKeepsTheConfig: a transport adds protocols to its configuration,
// with which a WebSocket over the same one would fail.
func TestWithTLSKeepsTheConfig(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer srv.Close()
	config := &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}
	c, err := client.New(srv.URL, client.WithTLS(config))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Healthy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(config.NextProtos) > 0 {
		t.Errorf("the caller's configuration now has protocols %q", config.NextProtos)
	}
}
