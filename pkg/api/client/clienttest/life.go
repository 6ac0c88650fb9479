package clienttest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/deskfork/deskfork/pkg/api"
)

// become gives a guest what is in another: files, windows, clipboard and
// programs.
func (g *guest) become(o *guest) {
	g.files = map[string]*file{}
	for name, f := range o.files {
		same := *f
		g.files[name] = &same
	}
	g.execs = map[string]*exec{}
	for id, e := range o.execs {
		e.mu.Lock()
		g.execs[id] = &exec{
			status: e.status, out: slices.Clone(e.out), err: slices.Clone(e.err), kept: e.kept,
			input: slices.Clone(e.input), grown: make(chan struct{}),
		}
		e.mu.Unlock()
	}
	g.windows, g.clipboard, g.pointer = slices.Clone(o.windows), maps.Clone(o.clipboard), o.pointer
	g.info.Display, g.info.Keyboard, g.info.Shape = o.info.Display, o.info.Keyboard, o.info.Shape
}

func (g *guest) node() api.Node {
	return api.Node{
		Kind: "desktop", ID: g.info.ID, Name: g.info.Name, Parent: cmp.Or(g.info.Parent, g.info.Snapshot, g.info.ImageDigest),
		State: string(g.info.State), Created: g.info.Created,
		MemoryPrivate: g.info.MemoryPrivate, MemoryShared: 2 << 30, DiskPrivate: g.info.DiskPrivate,
	}
}

func (s *Server) routeLife(m *http.ServeMux) {
	const d = "/v1/desktops/{d}"
	m.HandleFunc("POST "+d+"/fork", s.at(s.fork))
	m.HandleFunc("POST "+d+"/pause", s.at(turn(func(v *api.Desktop) { v.State = api.StatePaused })))
	m.HandleFunc("POST "+d+"/suspend", s.at(turn(func(v *api.Desktop) {
		v.State, v.MemoryPrivate = api.StateSuspended, 0
	})))
	m.HandleFunc("POST "+d+"/resume", s.at(turn(func(v *api.Desktop) {
		if v.State == api.StateSuspended {
			v.Origin, v.MemoryPrivate = api.OriginResume, 96<<20
		}
		v.State = api.StateReady
	})))
	m.HandleFunc("POST "+d+"/restore", s.at(s.restore))
	m.HandleFunc("PUT "+d+"/policy", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Policy](r)
		g.info.Policy = in
		return reply{body: g.info}, problem
	}))
	m.HandleFunc("GET /v1/tree", s.on(s.tree))
}

func turn(change func(*api.Desktop)) func(*guest, *http.Request) (reply, *api.Error) {
	return func(g *guest, _ *http.Request) (reply, *api.Error) {
		if g.info.Failure != nil {
			return reply{}, api.Errorf(api.CodePrecondition, "desktop %s has failed", g.info.Name)
		}
		change(&g.info)
		return reply{body: g.info}, nil
	}
}

func (s *Server) fork(g *guest, r *http.Request) (reply, *api.Error) {
	in, problem := read[api.Fork](r)
	if problem != nil {
		return reply{}, problem
	}
	var list api.DesktopList
	var ids []string
	for i := range max(in.Count, 1) {
		spec := api.CreateDesktop{Image: g.info.Image, Name: in.Name, Labels: in.Labels, Policy: in.Policy, Env: maps.Clone(g.info.Env)}
		if in.Name != "" && in.Count > 1 {
			spec.Name = fmt.Sprintf("%s-%d", in.Name, i+1)
		}
		if _, problem := s.find(spec.Name); spec.Name != "" && problem == nil {
			return reply{}, api.Errorf(api.CodeConflict, "the name %q is taken", spec.Name)
		}
		if spec.Labels == nil {
			spec.Labels = g.info.Labels
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		maps.Copy(spec.Env, in.Env)
		child := s.create(spec)
		child.become(g)
		child.info.Origin, child.info.Parent, child.info.MemoryPrivate = api.OriginFork, g.info.ID, 24<<20
		list.Desktops, ids = append(list.Desktops, child.info), append(ids, child.info.ID)
	}
	s.emitWith("desktop.forked", g.info.ID, map[string]any{"children": ids, "pause_ms": 31.5})
	return reply{http.StatusCreated, list}, nil
}

func (s *Server) restore(g *guest, r *http.Request) (reply, *api.Error) {
	in, problem := read[api.Restore](r)
	if problem != nil {
		return reply{}, problem
	}
	from, problem := s.snapshot(in.Snapshot)
	if problem != nil {
		return reply{}, problem
	}
	g.become(from.guest)
	g.info.Origin, g.info.Snapshot, g.info.State = api.OriginRestore, from.info.ID, api.StateReady
	g.info.Incarnation += "+"
	return reply{body: g.info}, nil
}

// tree lists images, then desktops and snapshots as they were made.
func (s *Server) tree(*http.Request) (reply, *api.Error) {
	out := api.Tree{Nodes: []api.Node{}}
	for _, i := range s.images {
		out.Nodes = append(out.Nodes, api.Node{Kind: "image", ID: i.Digest, Name: i.Name, Created: i.Created, DiskPrivate: i.Size})
	}
	out.Nodes = append(out.Nodes, s.gone...)
	for _, g := range s.guests {
		out.Nodes = append(out.Nodes, g.node())
	}
	for _, v := range s.saved {
		out.Nodes = append(out.Nodes, api.Node{
			Kind: "snapshot", ID: v.info.ID, Name: v.info.Name, Parent: cmp.Or(v.info.Desktop, v.info.ImageDigest),
			Created: v.info.Created, MemoryPrivate: v.info.MemoryBytes, DiskPrivate: v.info.DiskBytes,
		})
	}
	return reply{body: out}, nil
}
