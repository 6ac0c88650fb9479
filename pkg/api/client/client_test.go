package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest"
)

func setup(t *testing.T) (*clienttest.Server, *client.Client) {
	t.Helper()
	s := clienttest.New(t)
	c, err := client.New(s.URL, client.WithToken(clienttest.Token), client.WithRetries(2, time.Millisecond), client.WithPatience(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestNew(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, address string
		opts          []client.Option
		want          string // address, or part of the error after "!"
	}{
		{"plain", "http://h:1/", nil, "http://h:1"},
		{"no scheme", "127.0.0.1:7717", nil, "http://127.0.0.1:7717"},
		{"under a path", "https://h/desk/?x=1#y", nil, "https://h/desk"},
		{"other scheme", "ftp://h", nil, "!http://host:port"},
		{"no host", "http://", nil, "!http://host:port"},
		{"missing token file", "h", []client.Option{client.WithTokenFile("/does/not/exist")}, "!read token"},
		{"empty token file", "h", []client.Option{client.WithTokenFile(empty)}, "!is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := client.New(tc.address, tc.opts...)
			if part, bad := strings.CutPrefix(tc.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Fatalf("got error %v, want one with %q", err, part)
				}
				return
			}
			if err != nil || c.Address() != tc.want {
				t.Fatalf("got %v, %v, want %s", c, err, tc.want)
			}
		})
	}
}

func TestErrorsAreProblems(t *testing.T) {
	s, c := setup(t)
	ctx := t.Context()
	_, err := c.Desktop("nobody").Get(ctx)
	if !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("unknown desktop: %v", err)
	}
	bad, err := client.New(s.URL, client.WithToken("wrong"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Info(ctx); !errors.Is(err, &api.Error{Code: api.CodeUnauthorized}) {
		t.Errorf("wrong token: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Info(gone); !errors.Is(err, &api.Error{Code: api.CodeCancelled}) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.FailNext(&api.Error{Status: http.StatusTeapot})
	var p *api.Error
	if _, err := c.Info(ctx); !errors.As(err, &p) || p.Status != http.StatusTeapot || p.Code != api.CodeInternal {
		t.Errorf("no problem body: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1", client.WithRetries(1, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Info(t.Context())
	var p *api.Error
	if !errors.As(err, &p) || p.Code != api.CodeRefused || !strings.Contains(p.Hint, "vmhost serve") {
		t.Errorf("got %v", err)
	}
}

func TestRetries(t *testing.T) {
	gateway := &api.Error{Status: http.StatusBadGateway}
	create := func(ctx context.Context, c *client.Client) error {
		_, err := c.Desktops().Create(ctx, api.CreateDesktop{Image: "debian-xfce", Name: "one"})
		return err
	}
	for _, tc := range []struct {
		name string
		fail []*api.Error
		do   func(context.Context, *client.Client) error
		want int // requests
		ok   bool
	}{
		{"get after two bad gateways", []*api.Error{gateway, gateway}, infoOf, 3, true},
		{"get gives up", []*api.Error{gateway, gateway, gateway}, infoOf, 3, false},
		{"get of a guest that comes back", []*api.Error{api.Errorf(api.CodeGuestUnavail, "restarting")}, infoOf, 2, true},
		{"a guest that failed stays so", []*api.Error{api.Errorf(api.CodeGuestFailed, "no desktop")}, infoOf, 1, false},
		{"create is keyed", []*api.Error{{Status: http.StatusServiceUnavailable}}, create, 2, true},
		{"no room is no hiccup", []*api.Error{api.Errorf(api.CodeNoCapacity, "full")}, create, 1, false},
		{"exec is never repeated", []*api.Error{gateway}, func(ctx context.Context, c *client.Client) error {
			_, err := c.Desktop("d0001").Exec(ctx, "true")
			return err
		}, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := setup(t)
			s.Desktop(api.CreateDesktop{Image: "debian-xfce"})
			s.FailNext(tc.fail...)
			err := tc.do(t.Context(), c)
			if (err == nil) != tc.ok || len(s.Requests()) != tc.want {
				t.Errorf("err %v after %d requests, want %d", err, len(s.Requests()), tc.want)
			}
		})
	}
}

func infoOf(ctx context.Context, c *client.Client) error {
	_, err := c.Info(ctx)
	return err
}

func TestCreateCarriesOneKey(t *testing.T) {
	s, c := setup(t)
	if _, err := c.Desktops().Create(t.Context(), api.CreateDesktop{Image: "debian-xfce"}); err != nil {
		t.Fatal(err)
	}
	if s.Header().Get(api.HeaderIdempotencyKey) == "" {
		t.Error("no key")
	}
}

func TestHolder(t *testing.T) {
	s, c := setup(t)
	d := c.Desktop(s.Desktop(api.CreateDesktop{}))
	if err := d.Holding("agent-7", 3).Click(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	h := s.Header()
	if h.Get(api.HeaderHolder) != "agent-7" || h.Get(api.HeaderEpoch) != "3" {
		t.Errorf("headers %v", h)
	}
	if err := d.Click(t.Context(), 1, 2); err != nil || s.Header().Get(api.HeaderHolder) != "" {
		t.Errorf("holder stuck: %v, %v", err, s.Header())
	}
}

func TestList(t *testing.T) {
	s, c := setup(t)
	s.Desktop(api.CreateDesktop{Name: "a", Labels: map[string]string{"team": "x"}})
	s.Desktop(api.CreateDesktop{Name: "b", Labels: map[string]string{"team": "y"}})
	s.Desktop(api.CreateDesktop{Name: "c"})
	for _, tc := range []struct {
		name   string
		filter client.Filter
		want   []string
	}{
		{"all", client.Filter{}, []string{"c", "b", "a"}},
		{"label", client.Filter{Labels: map[string]string{"team": "x"}}, []string{"a"}},
		{"key of a label", client.Filter{Labels: map[string]string{"team": ""}}, []string{"b", "a"}},
		{"state", client.Filter{State: api.StateFailed}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := c.Desktops().List(t.Context(), tc.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range list {
				got = append(got, d.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	s, c := setup(t)
	f := c.Desktop(s.Desktop(api.CreateDesktop{})).Files()
	ctx := t.Context()
	info, err := f.Write(ctx, "/srv/a b/ü", strings.NewReader("0123456789"), client.WriteOptions{Mode: 0o4755, Parents: true})
	if err != nil || info.Mode != 0o4755 || info.Size != 10 {
		t.Fatalf("write: %+v, %v", info, err)
	}
	r, err := f.OpenRange(ctx, "/srv/a b/ü", 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	part, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(part) != "234" {
		t.Errorf("range: %q, %v", part, err)
	}
	tail, err := f.OpenRange(ctx, "/srv/a b/ü", 8, -1)
	if err != nil {
		t.Fatal(err)
	}
	part, err = io.ReadAll(tail)
	if err := errors.Join(err, tail.Close()); err != nil || string(part) != "89" {
		t.Errorf("tail: %q, %v", part, err)
	}
	if err := f.Rename(ctx, "/srv/a b/ü", "/srv/n"); err != nil {
		t.Error(err)
	}
	if data, err := f.Read(ctx, "/srv/n"); err != nil || string(data) != "0123456789" {
		t.Errorf("read: %q, %v", data, err)
	}
	list, err := f.List(ctx, "/srv")
	if err != nil || len(list) != 2 || list[1].Name != "n" {
		t.Errorf("list: %+v, %v", list, err)
	}
	tar, err := f.Archive(ctx, "/srv")
	if err != nil {
		t.Fatal(err)
	}
	err = f.Extract(ctx, "/copy", tar)
	if err := errors.Join(err, tar.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err := f.Read(ctx, "/copy/n"); err != nil || string(data) != "0123456789" {
		t.Errorf("copied: %q, %v", data, err)
	}
	if err := f.Remove(ctx, "/srv", true); err != nil {
		t.Error(err)
	}
	if _, err := f.Stat(ctx, "/srv/n"); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("after remove: %v", err)
	}
}

func TestScreenshotUnchanged(t *testing.T) {
	s, c := setup(t)
	screen := c.Desktop(s.Desktop(api.CreateDesktop{})).Screen()
	first, err := screen.Screenshot(t.Context(), client.ScreenshotOptions{})
	if err != nil || first.MIME != "image/png" || first.Width != 1280 || first.Scale != 1 || len(first.Data) == 0 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := screen.Screenshot(t.Context(), client.ScreenshotOptions{ETag: first.ETag})
	if err != nil || !second.Unchanged || len(second.Data) != 0 {
		t.Errorf("second: %+v, %v", second, err)
	}
	_, err = screen.Screenshot(t.Context(), client.ScreenshotOptions{
		Format: "jpeg", Quality: 80, MaxWidth: 640, Cursor: true, Region: &api.Region{X: 0, Y: 5, Width: 10, Height: 20},
	})
	want := "/screenshot?cursor=true&format=jpeg&height=20&max_width=640&quality=80&width=10&x=0&y=5"
	if got := s.Requests()[2]; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("asked %s, %v", got, err)
	}
}

func TestInputStopsAtFailure(t *testing.T) {
	s, c := setup(t)
	id := s.Desktop(api.CreateDesktop{})
	x, far, y := 10, 99999, 20
	reply, err := c.Desktop(id).Input().Act(t.Context(),
		api.Action{Kind: "click", X: &x, Y: &y}, api.Action{Kind: "click", X: &far, Y: &y}, api.Action{Kind: "key", Keys: "a"})
	if !errors.Is(err, &api.Error{Code: api.CodeInvalid}) || len(reply.Results) != 1 || len(s.Actions(id)) != 1 {
		t.Errorf("reply %+v, error %v, done %v", reply, err, s.Actions(id))
	}
}

func TestEventsGoOn(t *testing.T) {
	s, c := setup(t)
	for _, kind := range []string{"exec.started", "link.cut", "exec.ended", "link.cut", "last"} {
		s.Emit(kind, "d1")
	}
	s.Emit("other", "d2")
	var got []string
	for e, err := range c.Events(t.Context(), client.EventOptions{Desktop: "d1"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type)
		if e.Type == "last" {
			break
		}
	}
	if diff := cmp.Diff([]string{"exec.started", "link.cut", "exec.ended", "link.cut", "last"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestEventsEnd(t *testing.T) {
	s, c := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Emit("first", "")
	var last error
	for _, err := range c.Events(ctx, client.EventOptions{}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
	s.Emit("stream.error", "")
	for _, err := range c.Events(t.Context(), client.EventOptions{After: 1}) {
		last = err
	}
	if !errors.Is(last, &api.Error{Code: api.CodeForbidden}) {
		t.Errorf("in the stream: %v", last)
	}
	s.FailNext(api.Errorf(api.CodeForbidden, "not yours"))
	for _, err := range c.Events(t.Context(), client.EventOptions{}) {
		last = err
	}
	if !errors.Is(last, &api.Error{Code: api.CodeForbidden}) {
		t.Errorf("got %v", last)
	}
}

func TestDial(t *testing.T) {
	s, c := setup(t)
	d := c.Desktop(s.Desktop(api.CreateDesktop{}))
	conn, err := d.Dial(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := strings.Repeat("back and forth ", 5000)
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, text)
		done <- errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite())
	}()
	got, err := io.ReadAll(conn)
	if err := errors.Join(err, <-done); err != nil || string(got) != text {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(text), err)
	}
	if _, err := d.Dial(t.Context(), 8); !errors.Is(err, &api.Error{Code: api.CodeRefused}) {
		t.Errorf("closed port: %v", err)
	}
	if _, err := d.Dial(t.Context(), 0); !errors.Is(err, &api.Error{Code: api.CodeInvalid}) {
		t.Errorf("port 0: %v", err)
	}
}

func TestAdmin(t *testing.T) {
	_, c := setup(t)
	ctx := t.Context()
	tok, err := c.Tokens().Create(ctx, api.CreateToken{Name: "ci", Scopes: []string{"read"}})
	if err != nil || tok.Secret == "" {
		t.Fatalf("%+v, %v", tok, err)
	}
	list, err := c.Tokens().List(ctx)
	if err != nil || len(list) != 1 || list[0].Secret != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := c.Tokens().Delete(ctx, tok.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Images().Get(ctx, "debian-xfce:latest"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Images().Delete(ctx, "debian-xfce"), c.Healthy(ctx)); err != nil {
		t.Error(err)
	}
}
