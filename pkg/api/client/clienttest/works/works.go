// Package works is the workspaces of a fake server: what was published in which,
// and the calls that need no desktop.
package works

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Mounted is where a workspace lies in a guest.
const Mounted = "/workspace"

// File is one file of a workspace.
type File struct {
	Content []byte
	Mode    uint32
}

// Files are those of one checkpoint, by their full name.
type Files map[string]File

// Works are all workspaces. Its members may be changed while Lock is held; its
// methods are called so, but for Route.
type Works struct {
	Lock sync.Locker
	Time time.Time // of everything

	Damaged bool // every checkpoint lacks an object
	Cut     bool // exports end before they are whole, and say why

	all []*work
}

// work is one workspace: its checkpoints and their files, oldest first.
type work struct {
	info  api.Workspace
	log   []api.Checkpoint
	files []Files
}

// At is the checkpoint that a workspace is at; empty: there is none of that name.
func (s *Works) At(name string) string {
	w, problem := s.work(name)
	if problem != nil {
		return ""
	}
	return w.info.Published
}

// Files are those of W, or W@CHECKPOINT, and the workspace's name.
func (s *Works) Files(word string) (Files, string, *api.Error) {
	w, i, problem := s.point(word)
	if problem != nil {
		return nil, "", problem
	}
	return w.files[i], w.info.Name, nil
}

// work finds a workspace by name or id.
func (s *Works) work(ref string) (*work, *api.Error) {
	for _, w := range s.all {
		if w.info.Name == ref || w.info.ID == ref {
			return w, nil
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "no workspace %q", ref)
}

// point finds what W, or W@CHECKPOINT, names.
func (s *Works) point(word string) (*work, int, *api.Error) {
	name, which, chosen := strings.Cut(word, "@")
	w, problem := s.work(name)
	if problem != nil {
		return nil, 0, problem
	}
	i := len(w.log) - 1
	if chosen {
		i = slices.IndexFunc(w.log, func(c api.Checkpoint) bool { return c.Ref == which || path.Base(c.Ref) == which })
	}
	if i < 0 {
		return nil, 0, api.Errorf(api.CodeNotFound, "workspace %s has no checkpoint %q", name, which)
	}
	return w, i, nil
}

// Publish adds a checkpoint of files to a workspace, which it makes at need.
func (s *Works) Publish(name, desktop string, files Files) api.Checkpoint {
	w, problem := s.work(name)
	if problem != nil {
		w = &work{info: api.Workspace{ID: fmt.Sprintf("w%04d", len(s.all)+1), Name: name, Project: "default", Created: s.Time}}
		s.all = append(s.all, w)
	}
	c := api.Checkpoint{
		Ref: fmt.Sprintf("%s/c%04d", w.info.ID, len(w.log)+1), Workspace: name, Parent: w.info.Published, Size: 10 << 30,
		Content: "sha256:00", Created: s.Time, Desktop: desktop, Frozen: true, FrozenMS: 12.3, Used: 40 << 20, Added: 2 << 20, Stored: 20 << 20,
	}
	w.info.Published = c.Ref
	w.log, w.files = append(w.log, c), append(w.files, files)
	return c
}

// Route serves the calls.
func (s *Works) Route(m *http.ServeMux) {
	m.HandleFunc("GET /v1/workspaces", s.on(func(*http.Request) (reply, *api.Error) {
		list := api.WorkspaceList{Workspaces: []api.Workspace{}}
		for _, w := range s.all {
			list.Workspaces = append(list.Workspaces, w.info)
		}
		return reply{body: list}, nil
	}))
	m.HandleFunc("GET /v1/workspaces/{w}/checkpoints", s.on(func(r *http.Request) (reply, *api.Error) {
		w, problem := s.work(r.PathValue("w"))
		if problem != nil {
			return reply{}, problem
		}
		list := slices.Clone(w.log)
		slices.Reverse(list)
		return reply{body: api.CheckpointList{Checkpoints: list}}, nil
	}))
	m.HandleFunc("POST /v1/workspaces/{w}/clone", s.on(s.cloneWorkspace))
	m.HandleFunc("POST /v1/workspaces/{w}/verify", s.on(func(r *http.Request) (reply, *api.Error) {
		w, i, problem := s.point(r.PathValue("w"))
		if problem != nil {
			return reply{}, problem
		}
		v := api.Verified{Ref: w.log[i].Ref, Damaged: []string{}, OK: !s.Damaged}
		if s.Damaged {
			v.Damaged = append(v.Damaged, "packs/"+v.Ref+"/0000: is missing")
		}
		return reply{body: v}, nil
	}))
	m.HandleFunc("POST /v1/prune-workspaces", s.on(s.prune))
	m.HandleFunc("GET /v1/workspaces/{w}/archive", s.exportFiles)
	m.HandleFunc("PUT /v1/workspaces/{w}/archive", s.on(s.importFiles))
	m.HandleFunc("GET /v1/workspaces/{w}/diff", s.diff)
}

func (s *Works) cloneWorkspace(r *http.Request) (reply, *api.Error) {
	in, problem := read[api.CloneWorkspace](r)
	if problem != nil {
		return reply{}, problem
	}
	word := r.PathValue("w")
	if in.Checkpoint != "" {
		word += "@" + in.Checkpoint
	}
	w, i, problem := s.point(word)
	if problem != nil {
		return reply{}, problem
	}
	if _, problem := s.work(in.Name); problem == nil {
		return reply{}, api.Errorf(api.CodeConflict, "the name %q is taken", in.Name)
	}
	s.Publish(in.Name, "", w.files[i])
	made := s.all[len(s.all)-1]
	made.log[0], made.info.Published = w.log[i], w.log[i].Ref
	return reply{http.StatusCreated, made.info}, nil
}

// prune drops all but the newest of each workspace, however many are to stay.
func (s *Works) prune(r *http.Request) (reply, *api.Error) {
	in, problem := read[api.PruneWorkspaces](r)
	if problem != nil {
		return reply{}, problem
	}
	p := api.Pruned{Dropped: []string{}, Spared: []string{}, Missing: []string{}}
	for _, w := range s.all {
		n := len(w.log) - 1
		for _, c := range w.log[:n] {
			p.Dropped, p.Packs, p.Bytes = append(p.Dropped, c.Ref), p.Packs+1, p.Bytes+c.Added
		}
		if p.Kept++; !in.DryRun {
			w.log, w.files = w.log[n:], w.files[n:]
		}
	}
	return reply{body: p}, nil
}

func (s *Works) exportFiles(w http.ResponseWriter, r *http.Request) {
	s.Lock.Lock()
	defer s.Lock.Unlock()
	of, i, problem := s.point(r.PathValue("w"))
	if problem != nil {
		refuse(w, problem)
		return
	}
	w.Header().Set("Content-Type", api.TarMIME)
	out := tar.NewWriter(w)
	for _, p := range slices.Sorted(maps.Keys(of.files[i])) {
		f := of.files[i][p]
		h := &tar.Header{Name: "." + strings.TrimPrefix(p, Mounted), Mode: int64(f.Mode), Size: int64(len(f.Content)), ModTime: s.Time}
		_ = out.WriteHeader(h)
		_, _ = out.Write(f.Content)
	}
	if s.Cut { // and says why
		raw, _ := json.Marshal(api.Errorf(api.CodeGuestFailed, "read files of the workspace: tar ended with status 2"))
		_ = out.Flush()
		w.Header().Set(http.TrailerPrefix+api.HeaderProblem, string(raw))
		_ = http.NewResponseController(w).Flush()
		return
	}
	_ = out.Close()
}

func (s *Works) importFiles(r *http.Request) (reply, *api.Error) {
	name := r.PathValue("w")
	if w, problem := s.work(name); problem == nil && r.URL.Query().Get("replace") == "" {
		return reply{}, api.Errorf(api.CodeConflict, "workspace %s is at checkpoint %s", name, w.info.Published)
	}
	files := Files{}
	in := tar.NewReader(r.Body)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return reply{http.StatusCreated, s.Publish(name, "d9999", files)}, nil
		}
		var data []byte
		if err == nil {
			data, err = io.ReadAll(in)
		}
		if err != nil {
			return reply{}, api.Errorf(api.CodeInvalid, "tar: %v", err)
		}
		files[path.Join(Mounted, path.Clean("/"+h.Name))] = File{Content: data, Mode: uint32(h.Mode & 0o7777)}
	}
}

func (s *Works) diff(w http.ResponseWriter, r *http.Request) {
	s.Lock.Lock()
	defer s.Lock.Unlock()
	a, i, problem := s.point(r.PathValue("w"))
	b, j, other := s.point(r.URL.Query().Get("to"))
	if problem == nil {
		problem = other
	}
	if problem != nil {
		refuse(w, problem)
		return
	}
	before, after := a.files[i], b.files[j]
	all := maps.Clone(before)
	maps.Copy(all, after)
	w.Header().Set("Content-Type", api.LinesMIME)
	lines := json.NewEncoder(w)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		f := api.FileDifference{Path: strings.TrimPrefix(p, Mounted+"/"), Kind: "file", Change: api.DifferenceChanged}
		x, was := before[p]
		y, is := after[p]
		switch {
		case !was:
			f.Change, f.Size = api.DifferenceAdded, int64(len(y.Content))
		case !is:
			f.Change, f.SizeBefore = api.DifferenceRemoved, int64(len(x.Content))
		case string(x.Content) == string(y.Content):
			continue
		default:
			f.Fields, f.Size, f.SizeBefore = []string{"content"}, int64(len(y.Content)), int64(len(x.Content))
		}
		_ = lines.Encode(f)
	}
}

// reply is what a JSON handler answers.
type reply struct {
	status int // 0: 200
	body   any
}

// on makes a handler of a function that runs under the lock.
func (s *Works) on(f func(r *http.Request) (reply, *api.Error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Lock.Lock()
		defer s.Lock.Unlock()
		out, problem := f(r)
		if problem != nil {
			refuse(w, problem)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if out.status != 0 {
			w.WriteHeader(out.status)
		}
		_ = json.NewEncoder(w).Encode(out.body)
	}
}

func refuse(w http.ResponseWriter, problem *api.Error) {
	w.Header().Set("Content-Type", api.ErrorMIME)
	w.WriteHeader(problem.GetStatus())
	_ = json.NewEncoder(w).Encode(problem)
}

func read[T any](r *http.Request) (T, *api.Error) {
	var in T
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return in, api.Errorf(api.CodeInvalid, "body: %v", err)
	}
	return in, nil
}
