package clienttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest/works"
)

// reply is what a JSON handler answers.
type reply struct {
	status int
	body   any
}

// on makes a handler of a function that runs under s.mu.
func (s *Server) on(f func(r *http.Request) (reply, *api.Error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		out, problem := f(r)
		switch {
		case problem != nil:
			refuse(w, problem)
		case out.status == 0:
			answer(w, http.StatusOK, out.body)
		case out.body == nil:
			w.WriteHeader(out.status)
		default:
			answer(w, out.status, out.body)
		}
	}
}

// at makes a handler for one desktop.
func (s *Server) at(f func(g *guest, r *http.Request) (reply, *api.Error)) http.HandlerFunc {
	return s.on(func(r *http.Request) (reply, *api.Error) {
		g, problem := s.find(r.PathValue("d"))
		if problem != nil {
			return reply{}, problem
		}
		return f(g, r)
	})
}

func read[T any](r *http.Request) (T, *api.Error) {
	var in T
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return in, api.Errorf(api.CodeInvalid, "body: %v", err)
	}
	return in, nil
}

func (s *Server) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	m.HandleFunc("GET /v1/info", s.on(s.info))
	m.HandleFunc("GET /v1/doctor", s.on(s.doctor))
	m.HandleFunc("GET /v1/images", s.on(func(*http.Request) (reply, *api.Error) {
		return reply{body: api.ImageList{Images: s.images}}, nil
	}))
	m.HandleFunc("GET /v1/images/{ref}", s.on(s.image))
	m.HandleFunc("DELETE /v1/images/{ref}", s.on(s.removeImage))
	m.HandleFunc("POST /v1/images/{ref}/seal", s.on(s.sealImage))
	m.HandleFunc("GET /v1/tokens", s.on(s.listTokens))
	m.HandleFunc("POST /v1/tokens", s.on(s.createToken))
	m.HandleFunc("DELETE /v1/tokens/{id}", s.on(s.removeToken))
	m.HandleFunc("POST /v1/desktops", s.on(s.createDesktop))
	m.HandleFunc("GET /v1/desktops", s.on(s.listDesktops))
	m.HandleFunc("GET /v1/desktops/{d}", s.at(s.describe))
	m.HandleFunc("GET /v1/desktops/{d}/wait", s.wait)
	m.HandleFunc("DELETE /v1/desktops/{d}", s.at(s.deleteDesktop))
	m.HandleFunc("GET /v1/events", s.follow)
	m.HandleFunc("GET /v1/desktops/{d}/logs", s.logs)
	s.routeUsage(m)
	s.routeLife(m)
	s.routeSnapshots(m)
	m.HandleFunc("POST /v1/desktops/{d}/checkpoints", s.at(s.checkpoint))
	s.works.Route(m)
	s.routeGuest(m)
	return s.gate(m)
}

func (s *Server) info(*http.Request) (reply, *api.Error) {
	return reply{body: api.Info{
		Version: "v0.0.0-test", Provider: "qemu", ProviderVersion: "7.2.0", Accelerator: "tcg",
		AcceleratorReason: "kvm: no /dev/kvm", MemoryTotal: 24 << 30, MemoryAvailable: 20 << 30,
		DiskAvailable: 100 << 30, Desktops: len(s.guests),
	}}, nil
}

func (s *Server) doctor(*http.Request) (reply, *api.Error) {
	return reply{body: api.Doctor{OK: true, Checks: []api.Check{
		{Name: "provider", OK: true, Level: "ok", Detail: "qemu 7.2.0"},
		{Name: "accelerator", Level: "warning", Detail: "tcg", Cost: "about 8 times slower", Fix: "run on a host with KVM"},
	}}}, nil
}

func (s *Server) image(r *http.Request) (reply, *api.Error) {
	name, _, _ := strings.Cut(r.PathValue("ref"), ":")
	for _, i := range s.images {
		if i.Name == name || i.Digest == r.PathValue("ref") {
			return reply{body: i}, nil
		}
	}
	return reply{}, api.Errorf(api.CodeNotFound, "no image %q", r.PathValue("ref"))
}

func (s *Server) removeImage(r *http.Request) (reply, *api.Error) {
	if _, problem := s.image(r); problem != nil {
		return reply{}, problem
	}
	s.images = nil
	return reply{status: http.StatusNoContent}, nil
}

// sealImage answers a boot snapshot; only one that was asked for again has what
// should stand ready in it.
func (s *Server) sealImage(r *http.Request) (reply, *api.Error) {
	img, problem := s.image(r)
	if problem != nil {
		return reply{}, problem
	}
	in, problem := read[api.SealImage](r)
	v := api.Snapshot{
		ID: "t0001", Kind: "boot", ImageDigest: img.body.(api.Image).Digest, Shape: cmp.Or(in.Shape, "medium"), Created: epoch(),
	}
	if v.Template = v.ID; !in.Again {
		v.NotParked = "no window came"
	}
	return reply{body: v}, problem
}

func (s *Server) listTokens(*http.Request) (reply, *api.Error) {
	list := api.TokenList{Tokens: []api.Token{}}
	for _, t := range s.tokens {
		t.Secret = ""
		list.Tokens = append(list.Tokens, t)
	}
	return reply{body: list}, nil
}

func (s *Server) createToken(r *http.Request) (reply, *api.Error) {
	in, problem := read[api.CreateToken](r)
	if problem != nil {
		return reply{}, problem
	}
	t := api.Token{
		ID: fmt.Sprintf("t%d", len(s.tokens)+1), Name: in.Name, Project: "default", Scopes: in.Scopes,
		Created: epoch(), Secret: fmt.Sprintf("dft_secret%d", len(s.tokens)+1),
	}
	if in.Project != "" {
		t.Project = in.Project
	}
	s.tokens = append(s.tokens, t)
	return reply{http.StatusCreated, t}, nil
}

func (s *Server) removeToken(r *http.Request) (reply, *api.Error) {
	id := r.PathValue("id")
	before := len(s.tokens)
	s.tokens = slices.DeleteFunc(s.tokens, func(t api.Token) bool { return t.ID == id })
	if len(s.tokens) == before {
		return reply{}, api.Errorf(api.CodeNotFound, "no token %q", id)
	}
	return reply{status: http.StatusNoContent}, nil
}

func (s *Server) createDesktop(r *http.Request) (reply, *api.Error) {
	key := r.Header.Get(api.HeaderIdempotencyKey)
	if id := s.keys[key]; id != "" {
		g, problem := s.find(id)
		if problem != nil {
			return reply{}, problem
		}
		return reply{http.StatusCreated, g.info}, nil
	}
	in, problem := read[api.CreateDesktop](r)
	if problem != nil {
		return reply{}, problem
	}
	if (in.Image == "") == (in.Snapshot == "") {
		return reply{}, api.Errorf(api.CodeInvalid, "want either image or snapshot")
	}
	base, problem := s.base(in.Snapshot)
	if problem != nil {
		return reply{}, problem
	}
	if base == nil && !slices.ContainsFunc(s.images, func(i api.Image) bool { return i.Name == in.Image }) {
		p := api.Errorf(api.CodeNotFound, "no image %q", in.Image)
		p.Stage, p.Hint = string(api.StageAdmission), "see vmhost image ls"
		return reply{}, p
	}
	if _, problem := s.find(in.Name); problem == nil {
		return reply{}, api.Errorf(api.CodeConflict, "the name %q is taken", in.Name)
	}
	var files works.Files
	workspace := ""
	if in.Workspace != "" {
		if files, workspace, problem = s.works.Files(in.Workspace); problem != nil {
			return reply{}, problem
		}
	}
	g := s.create(in)
	g.begin(files, workspace)
	if base != nil {
		g.become(base.guest)
		g.info.Origin, g.info.Snapshot, g.info.Image = api.OriginSnapshot, base.info.ID, base.guest.info.Image
		base.info.UsedBy++
	}
	if key != "" {
		s.keys[key] = g.info.ID
	}
	return reply{http.StatusCreated, g.info}, nil
}

func (s *Server) listDesktops(r *http.Request) (reply, *api.Error) {
	q := r.URL.Query()
	list := api.DesktopList{Desktops: []api.Desktop{}}
	for _, g := range slices.Backward(s.guests) {
		keep := (q.Get("state") == "" || q.Get("state") == string(g.info.State)) &&
			(q.Get("name") == "" || q.Get("name") == g.info.Name)
		for _, label := range q["label"] {
			name, want, hasValue := strings.Cut(label, "=")
			value, has := g.info.Labels[name]
			keep = keep && has && (!hasValue || value == want)
		}
		if keep {
			list.Desktops = append(list.Desktops, g.info)
		}
	}
	return reply{body: list}, nil
}

func (s *Server) describe(g *guest, _ *http.Request) (reply, *api.Error) {
	if g.info.Failure != nil {
		return reply{}, g.info.Failure
	}
	v := g.info
	if len(g.slow) > 0 {
		v.Waiting, v.State = g.slow[0], api.StateStarting
		g.slow = g.slow[1:]
	} else { // whoever asks again has heard the last of it
		g.started()
	}
	return reply{body: v}, nil
}

// wait answers when the desktop's start waits for nothing any more.
func (s *Server) wait(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	g, problem := s.find(r.PathValue("d"))
	s.mu.Unlock()
	if problem == nil {
		select {
		case <-g.up:
		case <-r.Context().Done():
			return
		}
	}
	s.at(s.describe)(w, r)
}

func (s *Server) deleteDesktop(g *guest, _ *http.Request) (reply, *api.Error) {
	s.guests = slices.DeleteFunc(s.guests, func(o *guest) bool { return o == g })
	g.slow = nil
	g.started() // who waits for it is told
	dead := g.node()
	dead.Gone, dead.State, dead.MemoryPrivate = true, "", 0
	s.gone = append(s.gone, dead)
	s.emit("desktop.deleted", g.info.ID)
	return reply{status: http.StatusNoContent}, nil
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	_, problem := s.find(r.PathValue("d"))
	s.mu.Unlock()
	if problem != nil {
		refuse(w, problem)
		return
	}
	if r.URL.Query().Get("source") == "qemu" {
		fmt.Fprintln(w, "qemu: all quiet")
		return
	}
	fmt.Fprintln(w, "[    0.000000] Linux version 6.1.0")
}

// follow serves events and, at a mark, breaks the link so that clients must
// come back.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	var after uint64
	_, _ = fmt.Sscan(r.Header.Get("Last-Event-ID"), &after)
	if after == 0 {
		_, _ = fmt.Sscan(r.URL.Query().Get("after"), &after)
	}
	want := r.URL.Query().Get("desktop")
	s.mu.Lock()
	if g, problem := s.find(want); problem == nil {
		want = g.info.ID
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		fresh := slices.Clone(s.events[min(int(after), len(s.events)):])
		grown := s.grown
		s.mu.Unlock()
		for _, e := range fresh {
			after = e.Seq
			if want != "" && want != e.Desktop {
				continue
			}
			raw, _ := json.Marshal(e)
			fmt.Fprintf(w, ": ping\nid: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, raw)
			w.(http.Flusher).Flush()
			switch e.Type {
			case "link.cut":
				return
			case "stream.error":
				fmt.Fprint(w, "event: error\ndata: {\"code\":\"forbidden\",\"detail\":\"revoked\"}\n\n")
				return
			}
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

// Emit adds an event. The type link.cut also breaks every stream that says it,
// stream.error ends it with an error.
func (s *Server) Emit(kind, desktop string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.emit(kind, desktop)
}
