//go:build integration

package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// externalName is how clients call the daemon of these tests.
const externalName = "desks.example"

// TestTLS runs a daemon with a certificate of its own making under another name,
// and a desktop on it whose picture never comes.
func TestTLS(t *testing.T) {
	beside(t)
	d, ca := secure(t, "--stage-limit", "drawn=1s")
	trusting := []string{"SSL_CERT_FILE=" + ca}
	t.Run("without the certificate", func(t *testing.T) {
		res := run(t, d, command{args: []string{"ls"}})
		if res.status == 0 || !strings.Contains(res.errs, "certificate") {
			t.Errorf("exit %d: %s", res.status, res.errs)
		}
	})
	t.Run("without TLS", func(t *testing.T) {
		res, err := http.Get("http://" + d.Address + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d", res.StatusCode)
		}
	})
	t.Run("names", func(t *testing.T) {
		for name, want := range map[string]int{externalName: http.StatusOK, "evil.example": http.StatusForbidden} {
			if status := fetchAs(t, d, name, "/healthz"); status != want {
				t.Errorf("%s: status %d, want %d", name, status, want)
			}
		}
	})
	neverDrawn(t, d, trusting)
}

// neverDrawn boots a desktop without what draws it. It is reached by the command
// line, a WebSocket and a preview over TLS, and fails at the stage drawn.
func neverDrawn(t *testing.T, daemon *harness.Daemon, trusting []string) {
	t.Helper()
	made, err := daemon.Client.Desktops().Create(t.Context(), api.CreateDesktop{Image: "debian-xfce", Name: "blind", Shape: "small", Cold: true},
		client.Until(api.StageHandshake), client.Within(harness.BootTimeout))
	if err != nil {
		t.Fatal(err)
	}
	d := desk{made}
	d.asRoot(t, "chmod 0 /usr/bin/xfdesktop; pkill -9 -x xfdesktop; true")
	if res := run(t, daemon, command{env: trusting, args: []string{"exec", "blind", "--", "echo", "over TLS"}}); res.out != "over TLS\n" {
		t.Errorf("exec: %d %q %s", res.status, res.out, res.errs)
	}
	var out syncBuffer
	if end, err := d.Execs().Command(t.Context(), api.Exec{Argv: []string{"echo", "by WebSocket"}}, client.Streams{Stdout: &out}); err != nil || out.String() != "by WebSocket\n" {
		t.Errorf("exec: %+v, %v, %q", end, err, out.String())
	}
	ticket, err := d.Preview(t.Context(), 8765, time.Minute)
	if want := "https://" + externalName + "/"; err != nil || !strings.HasPrefix(ticket.URL, want) {
		t.Errorf("preview at %q, %v; want %s", ticket.URL, err, want)
	}
	_, err = d.Wait(t.Context(), api.StageDrawn, harness.BootTimeout)
	e := problem(t, err)
	if e.Code != api.CodeGuestFailed || e.Stage != string(api.StageDrawn) || !strings.Contains(e.Detail, "window") {
		t.Errorf("failure %+v", e)
	}
	if now, err := d.Get(t.Context()); err != nil || now.State != api.StateFailed {
		t.Errorf("state %s, %v", now.State, err)
	}
	d.gone(t, daemon)
}

// secure starts a daemon that speaks TLS, and returns the file of its authority.
func secure(t *testing.T, args ...string) (d *harness.Daemon, ca string) {
	t.Helper()
	d, err := harness.New(t.Context(), host.Bin, filepath.Dir(host.Data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Remove)
	cert, key := selfSigned(t)
	d.Args = append(args, "--tls-cert", cert, "--tls-key", key, "--external-url", "https://"+externalName)
	d.TLS = trust(t, cert)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Stop)
	return d, cert
}

func trust(t *testing.T, cert string) *tls.Config {
	t.Helper()
	raw, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// selfSigned writes a certificate for the loopback and the external name.
func selfSigned(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		DNSNames: []string{externalName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: raw},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// fetchAs gets a path from a daemon under a name that no resolver knows.
func fetchAs(t *testing.T, d *harness.Daemon, name, path string) (status int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://%s%s", d.Address, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = name
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: d.TLS, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", d.Address)
	}}}
	defer web.CloseIdleConnections()
	res, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}
