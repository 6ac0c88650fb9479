package sandboxes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/host/leases/hosted"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

// door is a server that leases machines.
type door struct {
	t     *testing.T
	world *world.World     // nil when machines are desktops
	guest *guesttest.Guest // of all machines of the world
	host  *hosttest.Fixture
	// outputs is a directory that each desktop has.
	outputs string

	desk  *leases.Desk
	url   string
	token string
}

// newDoor leases machines in memory, which all share one guest.
func newDoor(t *testing.T) *door {
	t.Helper()
	d := &door{t: t, world: world.New(sessiontest.NewMemory().Stores()), guest: guesttest.Start(t, guesttest.Config{}), host: hosttest.New(t)}
	inside := adapter.Guest(d.guest.Client(t), nil, nil)
	d.open(leases.Config{
		Machines: func(_ context.Context, _ string, want leases.Spec) (leases.Machines, error) {
			if want.Image == "none" {
				return nil, api.Errorf(api.CodeNotFound, "no image none")
			}
			return named{d.world.Sandbox()}, nil
		},
		Guest: func(context.Context, string, session.Lease) (*live.Desktop, error) { return inside, nil },
	})
	return d
}

// newDesktopDoor leases desktops.
func newDesktopDoor(t *testing.T) *door {
	t.Helper()
	d := &door{t: t, host: hosttest.New(t), outputs: filepath.Join(t.TempDir(), "mnt", "outputs")}
	on := hosted.Config{Host: d.host.Host, Suspends: true, Outputs: d.outputs}
	d.open(leases.Config{Machines: on.Machines, Guest: on.Guest})
	return d
}

// open serves until the test ends.
func (d *door) open(cfg leases.Config) {
	d.t.Helper()
	book, err := leases.OpenBook(d.t.Context(), filepath.Join(d.t.TempDir(), leases.FileName))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := book.Close(); err != nil {
			d.t.Error(err)
		}
	})
	cfg.Provider, cfg.Version, cfg.Book = provider, "1", book
	d.desk = leases.New(cfg)
	s, err := server.New(server.Config{Host: d.host.Host, Address: "127.0.0.1:0", Sandboxes: d.desk})
	if err != nil {
		d.t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(s)
	web.Config = server.HTTP(s, slog.New(slog.DiscardHandler))
	web.Start()
	d.t.Cleanup(web.Close)
	d.url = web.URL
	path, err := d.host.Host.FirstToken(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.token = strings.TrimSpace(string(secret))
}

// nothingLeft says that there is no desktop and no machine.
func (d *door) nothingLeft() {
	d.t.Helper()
	all, err := d.host.Host.Desktops(d.t.Context(), "", host.ListFilter{})
	if machines := d.host.Provider.Machines(); err != nil || len(all)+len(machines) != 0 {
		d.t.Errorf("%d desktops and %d machines are left, %v", len(all), len(machines), err)
	}
}

// answer is what a call said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// into decodes the body of an answer that must have a status.
func (a answer) into(t *testing.T, status int, v any) {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if v == nil {
		return
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// fails holds an answer to its code, in both places where clients look.
func (a answer) fails(t *testing.T, status int, code api.Code) api.Error {
	t.Helper()
	var e api.Error
	a.into(t, status, &e)
	if e.Code != code || e.Nested == nil || e.Nested.Code != code || e.Nested.Message == "" || e.Nested.Retryable != e.Retryable {
		t.Errorf("%s is not %s", a.body, code)
	}
	if got := a.header.Get("Content-Type"); got != api.ErrorMIME {
		t.Errorf("an error is %s", got)
	}
	return e
}

// call sends a body as it is, or JSON.
func (d *door) call(method, path string, body any, header ...string) answer {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	raw, ok := body.([]byte)
	if !ok && body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			d.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, bytes.NewReader(raw))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, text}
}

var scope = api.SandboxScope{Workspace: "ws", Environment: "env", Session: "s", Work: "w"}

func asked(generation int64) api.CreateSandbox {
	return api.CreateSandbox{Scope: scope, Generation: generation, Artifact: api.SandboxArtifact{Type: "image", Reference: "test"}}
}

func (d *door) create(generation int64) api.Sandbox {
	d.t.Helper()
	var s api.Sandbox
	d.call("POST", "/v1/sandboxes", asked(generation)).into(d.t, http.StatusCreated, &s)
	return s
}

func caller() leases.Caller { return leases.Caller{Project: hosttest.Project} }

// provider is whose leases the tests' are.
const provider = hosted.Provider

// named is machines in memory under the provider's own name.
type named struct{ world.Sandbox }

func ours(l session.Lease) session.Lease {
	l.Provider = provider
	return l
}

func theirs(l session.Lease) session.Lease {
	l.Provider = world.Provider
	return l
}

func (n named) Acquire(ctx context.Context, a session.Allocation) (session.Lease, error) {
	l, err := n.Sandbox.Acquire(ctx, a)
	return ours(l), err
}

func (n named) Suspend(ctx context.Context, t session.Tenure, l session.Lease) (session.Lease, error) {
	l, err := n.Sandbox.Suspend(ctx, t, theirs(l))
	return ours(l), err
}

func (n named) Terminate(ctx context.Context, t session.Tenure, l session.Lease, r session.Reason) error {
	return n.Sandbox.Terminate(ctx, t, theirs(l), r)
}

func (n named) Reap(ctx context.Context, s session.Scope, l session.Lease, r session.Reason) error {
	return n.Sandbox.Reap(ctx, s, theirs(l), r)
}
