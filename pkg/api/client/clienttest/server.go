// Package clienttest is a small fake of Deskfork's HTTP API, in memory, for
// tests of the Go client and of programs that use it. It runs no machine: its
// guests have a map for a file system, a handful of programs and a list of the
// actions that they were sent.
package clienttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest/films"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest/works"
)

// Token is the only token that a Server takes at first.
const Token = "dft_test"

// Server is the fake. Its exported methods may be called at any time.
type Server struct {
	URL string

	mu       sync.Mutex
	guests   []*guest
	saved    []*saved
	stored   map[string]stored // by name
	works    works.Works
	gone     []api.Node // desktops that were deleted
	made     int        // desktops ever
	images   []api.Image
	tokens   []api.Token
	events   []api.Event
	grown    chan struct{} // closed when an event is added
	keys     map[string]string
	fail     []*api.Error // answers for the next requests
	slow     []string     // what the next desktop's start waits for
	requests []string     // method and path with query, in order
	headers  []http.Header
	cut      []int // attached links break after so many bytes of output
	cutInput []int // the same for input
	onAction func(*Guest, api.Action)
	onExec   func(*Guest, api.Exec)
	onLaunch func(*Guest, api.Launch)

	cutExports bool
}

// guest is one desktop.
type guest struct {
	info      api.Desktop
	slow      []string      // what its start still waits for
	up        chan struct{} // closed when it waits for nothing any more
	started   func()        // closes it
	files     map[string]*file
	actions   []api.Action
	windows   []api.Window
	clipboard map[string][]byte
	pointer   api.Point
	execs     map[string]*exec
	seq       uint64
	work      string // the workspace that it publishes in
	control   api.Control
	audit     []api.AuditEntry // newest first
	films     films.Shelf
}

// TB is what a Server needs of a test or an example.
type TB interface{ Cleanup(func()) }

// New starts a server with the image debian-xfce and no desktop. It ends with
// the test.
func New(t TB) *Server {
	s := &Server{keys: map[string]string{}, grown: make(chan struct{})}
	s.works.Lock, s.works.Time = &s.mu, epoch()
	s.images = []api.Image{{
		Digest: "sha256:0123456789abcdef", Name: "debian-xfce", Tags: []string{"debian-xfce:latest"}, OS: "linux",
		Size: 2 << 30, Virtual: 8 << 30, Created: epoch(),
	}}
	hs := httptest.NewServer(s.handler())
	s.URL = hs.URL
	t.Cleanup(func() {
		hs.CloseClientConnections()
		hs.Close()
	})
	return s
}

// epoch is the time of everything in a fake, so that output is the same always.
func epoch() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// FailNext answers the next requests, whatever they are, with problems.
func (s *Server) FailNext(problems ...*api.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = append(s.fail, problems...)
}

// StartSlowly makes the next desktop one whose start waits for something, which
// is told one after the other to who asks for the desktop. It is ready when all
// was told.
func (s *Server) StartSlowly(waiting ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = waiting
}

// CutLinks breaks the next attached links, one after the other, after so many
// bytes of output each.
func (s *Server) CutLinks(after ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = append(s.cut, after...)
}

// CutInput breaks the next attached links, one after the other, after so many
// bytes of input each; what is more is lost on the way.
func (s *Server) CutInput(after ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutInput = append(s.cutInput, after...)
}

// OnAction is called for every action of an input batch, with its guest.
func (s *Server) OnAction(f func(*Guest, api.Action)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onAction = f
}

// OnExec is called for every program that is executed, with its guest.
func (s *Server) OnExec(f func(*Guest, api.Exec)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onExec = f
}

// OnLaunch is called for every program that is launched, with its guest.
func (s *Server) OnLaunch(f func(*Guest, api.Launch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onLaunch = f
}

// Requests lists what was asked, as "GET /v1/desktops?name=x".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Header is the header of the last request.
func (s *Server) Header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[len(s.headers)-1].Clone()
}

// Desktop adds a ready desktop and returns its id.
func (s *Server) Desktop(spec api.CreateDesktop) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.create(spec)
	return g.info.ID
}

// create adds a desktop; s.mu is held.
func (s *Server) create(spec api.CreateDesktop) *guest {
	s.made++
	n := s.made
	info := api.Desktop{
		ID: fmt.Sprintf("d%04d", n), Name: spec.Name, Project: "default", Image: spec.Image,
		ImageDigest: s.images[0].Digest, Shape: spec.Shape, Labels: spec.Labels, Env: spec.Env,
		Keyboard: spec.Keyboard, Network: spec.Network, WorkspaceMiB: spec.WorkspaceMiB,
		State: api.StateReady, Incarnation: fmt.Sprintf("i%04d", n), Accelerator: "tcg",
		Created: epoch().Add(time.Duration(n) * time.Minute), Display: api.Display{Width: 1280, Height: 800},
		Origin: api.OriginTemplate, Policy: spec.Policy, MemoryPrivate: 96 << 20, DiskPrivate: 8 << 20,
	}
	if spec.Cold {
		info.Origin, info.OriginReason, info.MemoryPrivate = api.OriginCold, "asked for", 600<<20
	}
	if info.Name == "" {
		info.Name = fmt.Sprintf("calm-otter-%d", n)
	}
	if info.Shape == "" {
		info.Shape = "medium"
	}
	if spec.Display != nil {
		info.Display = *spec.Display
	}
	for _, st := range stages() {
		info.Stages = append(info.Stages, api.StageTime{Stage: st, Reached: info.Created, TookMS: 1500})
	}
	up := make(chan struct{})
	g := &guest{
		slow: s.slow, started: sync.OnceFunc(func() { close(up) }), up: up,
		info: info, files: map[string]*file{}, execs: map[string]*exec{},
		clipboard: map[string][]byte{}, seq: 1,
		windows: []api.Window{
			{ID: 11, Title: "Desktop", Class: "xfdesktop", Width: info.Display.Width, Height: info.Display.Height, Type: "desktop"},
			{ID: 12, Title: "xfce4-panel", Class: "xfce4-panel", Y: info.Display.Height - 48, X: 400, Width: 480, Height: 48, Type: "dock"},
		},
	}
	if s.slow = nil; len(g.slow) == 0 {
		g.started()
	}
	g.mkdirs("/tmp", "/home/agent", "/workspace")
	s.guests = append(s.guests, g)
	s.emit("desktop.created", info.ID)
	s.emit("desktop.ready", info.ID)
	return g
}

// stages lists the readiness stages in order.
func stages() []api.Stage {
	return []api.Stage{
		api.StageAdmission, api.StageMachine, api.StageLink, api.StageHandshake, api.StageSession, api.StageDrawn,
	}
}

// emit adds an event; s.mu is held.
func (s *Server) emit(kind, desktop string) { s.emitWith(kind, desktop, nil) }

func (s *Server) emitWith(kind, desktop string, data map[string]any) {
	n := len(s.events) + 1
	s.events = append(s.events, api.Event{
		Seq: uint64(n), Time: epoch().Add(time.Duration(n) * time.Second), Type: kind, Desktop: desktop, Data: data,
	})
	close(s.grown)
	s.grown = make(chan struct{})
}

// find finds a desktop by id or name; s.mu is held.
func (s *Server) find(ref string) (*guest, *api.Error) {
	for _, g := range s.guests {
		if g.info.ID == ref || g.info.Name == ref {
			return g, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no desktop %q", ref)
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, problem *api.Error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(problem.Status)
	_ = json.NewEncoder(w).Encode(problem)
}

// gate records a request and lets it through with a good token.
func (s *Server) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		s.headers = append(s.headers, r.Header.Clone())
		var problem *api.Error
		if len(s.fail) > 0 {
			problem, s.fail = s.fail[0], s.fail[1:]
		}
		secret := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		known := secret == Token || slices.ContainsFunc(s.tokens, func(t api.Token) bool { return t.Secret == secret })
		s.mu.Unlock()
		switch {
		case problem != nil && problem.Code == "":
			w.WriteHeader(problem.Status) // what a gateway says
		case problem != nil:
			refuse(w, problem)
		case !known && r.URL.Path != "/healthz":
			refuse(w, api.Errorf(api.CodeUnauthorized, "no such token"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}
