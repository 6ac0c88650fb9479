package clienttest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
)

type file struct {
	content []byte
	mode    uint32
	dir     bool
}

func (g *guest) mkdirs(paths ...string) {
	for _, p := range paths {
		for ; p != "/"; p = path.Dir(p) {
			if g.files[p] == nil {
				g.files[p] = &file{mode: 0o755, dir: true}
			}
		}
	}
}

// File reads a file of a desktop; ok is false when there is none.
func (s *Server) File(ref, name string) (content []byte, mode uint32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(ref)
	if problem != nil || g.files[name] == nil {
		return nil, 0, false
	}
	return slices.Clone(g.files[name].content), g.files[name].mode, true
}

// SetFile writes a file of a desktop; its directories are made.
func (s *Server) SetFile(ref, name string, content []byte, mode uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, problem := s.find(ref); problem == nil {
		g.mkdirs(path.Dir(name))
		g.files[name] = &file{content: content, mode: mode}
	}
}

func (s *Server) routeFiles(m *http.ServeMux) {
	const d = "/v1/desktops/{d}"
	m.HandleFunc("GET "+d+"/files", s.readFile)
	m.HandleFunc("PUT "+d+"/files", s.at(writeFile))
	m.HandleFunc("DELETE "+d+"/files", s.at(removeFile))
	m.HandleFunc("GET "+d+"/stat", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		info, problem := g.stat(resolve(r))
		return reply{body: info}, problem
	}))
	m.HandleFunc("GET "+d+"/list", s.at(listFiles))
	m.HandleFunc("POST "+d+"/mkdir", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Mkdir](r)
		g.mkdirs(in.Path)
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("POST "+d+"/rename", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Rename](r)
		g.files[in.To] = g.files[in.From]
		delete(g.files, in.From)
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("POST "+d+"/chmod", s.at(func(g *guest, r *http.Request) (reply, *api.Error) {
		in, problem := read[api.Chmod](r)
		if f := g.files[in.Path]; f != nil {
			f.mode = in.Mode
		}
		return reply{status: http.StatusNoContent}, problem
	}))
	m.HandleFunc("GET "+d+"/archive", s.pack)
	m.HandleFunc("PUT "+d+"/archive", s.at(unpack))
}

// resolve is the path of a request, made absolute.
func resolve(r *http.Request) string {
	p := r.URL.Query().Get("path")
	if !strings.HasPrefix(p, "/") {
		p = "/home/agent/" + p
	}
	return path.Clean(p)
}

func (g *guest) stat(p string) (api.FileInfo, *api.Error) {
	f := g.files[p]
	if p == "/" {
		f = &file{mode: 0o755, dir: true}
	}
	if f == nil {
		return api.FileInfo{}, api.Errorf(api.CodeNotFound, "no file %s", p)
	}
	info := api.FileInfo{
		Name: path.Base(p), Path: p, Type: api.FileRegular, Size: int64(len(f.content)),
		Mode: f.mode, MTime: epoch(), User: "agent", Group: "agent",
	}
	if f.dir {
		info.Type = api.FileDir
	}
	return info, nil
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(r.PathValue("d"))
	var info api.FileInfo
	if problem == nil {
		info, problem = g.stat(resolve(r))
	}
	if problem == nil && info.Type == api.FileDir {
		problem = api.Errorf(api.CodeInvalid, "%s is a directory", info.Path)
	}
	if problem != nil {
		refuse(w, problem)
		return
	}
	http.ServeContent(w, r, "", epoch(), bytes.NewReader(g.files[info.Path].content))
}

func writeFile(g *guest, r *http.Request) (reply, *api.Error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return reply{}, api.Errorf(api.CodeInvalid, "body: %v", err)
	}
	mode, err := strconv.ParseUint(r.URL.Query().Get("mode"), 8, 32)
	if err != nil {
		mode = 0o644
	}
	p := resolve(r)
	if r.URL.Query().Get("parents") == "true" {
		g.mkdirs(path.Dir(p))
	}
	if _, problem := g.stat(path.Dir(p)); problem != nil {
		return reply{}, problem
	}
	g.files[p] = &file{content: data, mode: uint32(mode)}
	info, problem := g.stat(p)
	return reply{http.StatusCreated, info}, problem
}

func removeFile(g *guest, r *http.Request) (reply, *api.Error) {
	p := resolve(r)
	if _, problem := g.stat(p); problem != nil {
		return reply{}, problem
	}
	maps.DeleteFunc(g.files, func(q string, _ *file) bool { return q == p || strings.HasPrefix(q, p+"/") })
	return reply{status: http.StatusNoContent}, nil
}

func listFiles(g *guest, r *http.Request) (reply, *api.Error) {
	p := resolve(r)
	list := api.FileList{Entries: []api.FileInfo{}}
	for _, q := range slices.Sorted(maps.Keys(g.files)) {
		if path.Dir(q) == p {
			info, _ := g.stat(q)
			list.Entries = append(list.Entries, info)
		}
	}
	return reply{body: list}, nil
}

func (s *Server) pack(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, problem := s.find(r.PathValue("d"))
	top := resolve(r)
	if problem == nil {
		_, problem = g.stat(top)
	}
	if problem != nil {
		refuse(w, problem)
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	out := tar.NewWriter(w)
	for _, p := range slices.Sorted(maps.Keys(g.files)) {
		if p != top && !strings.HasPrefix(p, top+"/") {
			continue
		}
		f := g.files[p]
		name := "./" + strings.TrimPrefix(strings.TrimPrefix(p, top), "/")
		if p == top && !f.dir {
			name = path.Base(top)
		}
		if !f.dir && f.mode&0o444 == 0 && r.Header.Get("TE") == "trailers" {
			raw, _ := json.Marshal(api.Errorf(api.CodePermission, "open %s: permission denied", name))
			w.Header().Set(http.TrailerPrefix+api.HeaderProblem, string(raw))
			_ = out.Flush()
			w.(http.Flusher).Flush()
			return
		}
		h := &tar.Header{
			Name: name, Mode: int64(f.mode), Size: int64(len(f.content)),
			Typeflag: tar.TypeReg, ModTime: epoch(),
		}
		if f.dir {
			h.Name, h.Typeflag = strings.TrimSuffix(h.Name, "/")+"/", tar.TypeDir
		}
		_ = out.WriteHeader(h)
		_, _ = out.Write(f.content)
	}
	_ = out.Close()
}

func unpack(g *guest, r *http.Request) (reply, *api.Error) {
	top := resolve(r)
	g.mkdirs(top)
	in := tar.NewReader(r.Body)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return reply{status: http.StatusNoContent}, nil
		}
		if err != nil {
			return reply{}, api.Errorf(api.CodeInvalid, "tar: %v", err)
		}
		p := path.Join(top, path.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			g.mkdirs(p)
			if f := g.files[p]; f != nil {
				f.mode = uint32(h.Mode & 0o7777)
			}
			continue
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return reply{}, api.Errorf(api.CodeInvalid, "tar: %v", err)
		}
		g.mkdirs(path.Dir(p))
		g.files[p] = &file{content: data, mode: uint32(h.Mode & 0o7777)}
	}
}
