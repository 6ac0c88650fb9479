package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// saved is a snapshot: its description, and a guest that nobody sees.
type saved struct {
	info  api.Snapshot
	guest *guest
}

// stream is what the fake exports: JSON, where the server sends zstd.
type stream struct {
	Snapshot api.Snapshot
	Desktop  api.Desktop
	Files    map[string][]byte
}

// snapshot finds a snapshot by name or id; s.mu is held.
func (s *Server) snapshot(ref string) (*saved, *api.Error) {
	for _, v := range s.saved {
		if v.info.ID == ref || v.info.Name == ref {
			return v, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no snapshot %q", ref)
}

// base is the snapshot that a new desktop is to be cloned from; nil when none is
// named.
func (s *Server) base(ref string) (*saved, *api.Error) {
	if ref == "" {
		return nil, nil
	}
	return s.snapshot(ref)
}

func (s *Server) routeSnapshots(m *http.ServeMux) {
	m.HandleFunc("POST /v1/desktops/{d}/snapshots", s.at(s.seal))
	m.HandleFunc("GET /v1/snapshots", s.on(func(*http.Request) (reply, *api.Error) {
		list := api.SnapshotList{Snapshots: []api.Snapshot{}}
		for _, v := range slices.Backward(s.saved) {
			list.Snapshots = append(list.Snapshots, v.info)
		}
		return reply{body: list}, nil
	}))
	m.HandleFunc("GET /v1/snapshots/{s}", s.on(func(r *http.Request) (reply, *api.Error) {
		v, problem := s.snapshot(r.PathValue("s"))
		if problem != nil {
			return reply{}, problem
		}
		return reply{body: v.info}, nil
	}))
	m.HandleFunc("DELETE /v1/snapshots/{s}", s.on(func(r *http.Request) (reply, *api.Error) {
		v, problem := s.snapshot(r.PathValue("s"))
		s.saved = slices.DeleteFunc(s.saved, func(o *saved) bool { return o == v })
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("GET /v1/snapshots/{s}/export", s.export)
	m.HandleFunc("POST /v1/snapshots/import", s.on(s.restoreExport))
	m.HandleFunc("POST /v1/snapshots/{s}/exports", s.on(s.store))
	m.HandleFunc("GET /v1/snapshot-exports", s.on(func(*http.Request) (reply, *api.Error) {
		list := api.SnapshotExportList{Exports: []api.SnapshotExport{}}
		for _, name := range slices.Sorted(maps.Keys(s.stored)) {
			list.Exports = append(list.Exports, s.stored[name].export)
		}
		return reply{body: list}, nil
	}))
	m.HandleFunc("DELETE /v1/snapshot-exports/{e}", s.on(func(r *http.Request) (reply, *api.Error) {
		_, problem := s.inStore(r)
		delete(s.stored, r.PathValue("e"))
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("POST /v1/snapshot-exports/{e}/import", s.on(s.fetch))
}

// stored is a snapshot in the blob store.
type stored struct {
	export api.SnapshotExport
	saved  saved
}

func (s *Server) inStore(r *http.Request) (stored, *api.Error) {
	v, ok := s.stored[r.PathValue("e")]
	if !ok {
		return v, api.Errorf(api.CodeNotFound, "the blob store has no export %s", r.PathValue("e"))
	}
	return v, nil
}

func (s *Server) store(r *http.Request) (reply, *api.Error) {
	v, problem := s.snapshot(r.PathValue("s"))
	if problem != nil {
		return reply{}, problem
	}
	in, problem := read[api.ExportSnapshot](r)
	if problem != nil {
		return reply{}, problem
	}
	if _, there := s.stored[in.Name]; there {
		return reply{}, api.Errorf(api.CodeConflict, "the blob store has an export %s", in.Name)
	}
	made := api.SnapshotExport{
		Name: in.Name, Snapshot: v.info.Name, ImageDigest: v.info.ImageDigest, Shape: v.info.Shape, Accelerator: v.info.Accelerator,
		Hypervisor: v.info.Hypervisor, Digest: v.info.Digest, Bytes: 21 << 20, Created: v.info.Created.Add(time.Hour),
	}
	if s.stored == nil {
		s.stored = map[string]stored{}
	}
	s.stored[in.Name] = stored{made, *v}
	return reply{http.StatusCreated, made}, nil
}

func (s *Server) fetch(r *http.Request) (reply, *api.Error) {
	v, problem := s.inStore(r)
	if problem != nil {
		return reply{}, problem
	}
	in, problem := read[api.ImportSnapshot](r)
	if problem != nil {
		return reply{}, problem
	}
	d := v.saved.guest.info
	d.ID = "" // of another host, it may be
	return s.keep(in.Name, d, v.saved.guest)
}

// keep adds a snapshot, unless its name is taken.
func (s *Server) keep(name string, desktop api.Desktop, g *guest) (reply, *api.Error) {
	if _, problem := s.snapshot(name); problem == nil {
		return reply{}, api.Errorf(api.CodeConflict, "the name %q is taken", name)
	}
	id := fmt.Sprintf("s%04d", len(s.saved)+1)
	v := &saved{guest: g, info: api.Snapshot{
		ID: id, Name: name, Kind: "snapshot", Project: "default", Desktop: desktop.ID, ImageDigest: desktop.ImageDigest,
		Template: "s0000", Shape: desktop.Shape, Display: desktop.Display, Accelerator: "tcg", Hypervisor: "qemu 7.2.0",
		Digest: "sha256:fedcba9876543210", MemoryBytes: 48 << 20, StateBytes: 1 << 20, DiskBytes: 8 << 20, PauseMS: 31.5,
		Created: desktop.Created.Add(time.Hour), WorkspaceMiB: 10240,
	}}
	s.saved = append(s.saved, v)
	return reply{http.StatusCreated, v.info}, nil
}

func (s *Server) seal(g *guest, r *http.Request) (reply, *api.Error) {
	in, problem := read[api.CreateSnapshot](r)
	if problem != nil {
		return reply{}, problem
	}
	inside := &guest{info: g.info}
	inside.become(g)
	return s.keep(in.Name, g.info, inside)
}

// CutExports breaks exports off half way from now on.
func (s *Server) CutExports() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutExports, s.works.Cut = true, true
}

func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, problem := s.snapshot(r.PathValue("s"))
	if problem != nil {
		refuse(w, problem)
		return
	}
	out := stream{Snapshot: v.info, Desktop: v.guest.info, Files: map[string][]byte{}}
	for name, f := range v.guest.files {
		if !f.dir {
			out.Files[name] = f.content
		}
	}
	raw, _ := json.Marshal(out)
	w.Header().Set("Content-Type", api.SnapshotMIME)
	if s.cutExports {
		w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
		raw = raw[:len(raw)/2]
	}
	_, _ = w.Write(raw)
}

func (s *Server) restoreExport(r *http.Request) (reply, *api.Error) {
	raw, err := io.ReadAll(r.Body)
	var in stream
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil || in.Snapshot.ID == "" {
		return reply{}, api.Errorf(api.CodeImageCorrupt, "this is no snapshot, or not all of it")
	}
	g := &guest{info: in.Desktop, files: map[string]*file{}}
	for name, content := range in.Files {
		g.files[name] = &file{content: content, mode: 0o644}
	}
	in.Desktop.ID = "" // of another host
	return s.keep(r.URL.Query().Get("name"), in.Desktop, g)
}
