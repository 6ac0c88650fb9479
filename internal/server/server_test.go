package server_test

import (
	"bytes"
	"context"
	"image/png"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// door is a server over a host in memory.
type door struct {
	*hosttest.Fixture

	Server *server.Server
	HTTP   *httptest.Server
	Token  string
	Client *client.Client
}

// newDoor serves until the test ends. change adjusts the server.
func newDoor(tb testing.TB, change ...func(*server.Config)) *door {
	tb.Helper()
	return newDoorOver(tb, hosttest.New(tb), change...)
}

func newDoorOver(tb testing.TB, f *hosttest.Fixture, change ...func(*server.Config)) *door {
	tb.Helper()
	cfg := server.Config{Host: f.Host, Address: "127.0.0.1:0", Version: "test", Sandboxes: leases.New(leases.Config{})}
	for _, fn := range change {
		fn(&cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	d := &door{Fixture: f, Server: s, HTTP: httptest.NewUnstartedServer(s)}
	d.HTTP.Config = server.HTTP(s, slog.New(slog.DiscardHandler))
	d.HTTP.Start()
	tb.Cleanup(d.HTTP.Close)
	d.Token = d.secret(tb)
	d.Client, err = client.New(d.HTTP.URL, client.WithToken(d.Token))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func (d *door) secret(tb testing.TB) string {
	tb.Helper()
	path, err := d.Host.FirstToken(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// tokenOf makes a token with scopes, in a project.
func (d *door) tokenOf(t *testing.T, project string, scopes ...string) string {
	t.Helper()
	tok, err := d.Host.Access.Create(context.Background(), project, api.CreateToken{Name: "t", Project: project, Scopes: scopes}, "")
	if err != nil {
		t.Fatal(err)
	}
	return tok.Secret
}

// do sends a raw request with the first token.
func (d *door) do(t *testing.T, method, path, body string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, d.HTTP.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := d.HTTP.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestCreateExecScreenshot(t *testing.T) {
	d := newDoor(t)
	ctx := t.Context()
	desk, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "test", Name: "one"}, client.Until(api.StageDrawn))
	if err != nil {
		t.Fatal(err)
	}
	if desk.Info.State != api.StateReady {
		t.Errorf("state is %s", desk.Info.State)
	}
	res, err := desk.Exec(ctx, "sh", "-c", "printf hello; printf bad >&2; exit 7")
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Stdout) != "hello" || string(res.Stderr) != "bad" || res.ExitCode != 7 {
		t.Errorf("exec answered %q, %q, %d", res.Stdout, res.Stderr, res.ExitCode)
	}
	shot, err := desk.Screenshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds().Dx() != 1280 || shot.Width != 1280 || shot.Scale != 1 || shot.Seq == 0 {
		t.Errorf("picture of %v, said %+v", img.Bounds(), shot.Width)
	}
	again, err := desk.Screen().Screenshot(ctx, client.ScreenshotOptions{ETag: shot.ETag})
	if err != nil {
		t.Fatal(err)
	}
	if !again.Unchanged {
		t.Error("an unchanged screen was sent again")
	}
	if err := desk.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	if len(d.Provider.Machines()) != 0 {
		t.Error("a machine is left after delete")
	}
	if err := desk.Delete(ctx); err != nil {
		t.Errorf("second delete: %v", err)
	}
}

func withLog(h slog.Handler) func(*server.Config) {
	return func(c *server.Config) { c.Logger = slog.New(h) }
}
