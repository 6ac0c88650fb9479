package clienttest

import (
	"net/http"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/clienttest/works"
)

// DamageStore makes every checkpoint of a workspace one that lacks an object.
func (s *Server) DamageStore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works.Damaged = true
}

// begin gives a guest the files of the workspace that it begins with.
func (g *guest) begin(files works.Files, workspace string) {
	for name, f := range files {
		g.mkdirs(name)
		g.files[name] = &file{content: f.Content, mode: f.Mode}
	}
	g.work = workspace
}

func (s *Server) checkpoint(g *guest, r *http.Request) (reply, *api.Error) {
	in, problem := read[api.CreateCheckpoint](r)
	if problem != nil {
		return reply{}, problem
	}
	name := in.Workspace
	if name == "" {
		name = g.work
	}
	if name == "" {
		return reply{}, api.Errorf(api.CodeInvalid, "desktop %s has no workspace yet: name one", g.info.Name)
	}
	if at := s.works.At(name); at != "" && name != g.work && !in.Replace {
		p := api.Errorf(api.CodeConflict, "workspace %s is at checkpoint %s, which the disk of desktop %s does not go on from", name, at, g.info.Name)
		p.Hint = "publish under another name, or replace what is there"
		return reply{}, p
	}
	g.work = name
	files := works.Files{}
	for name, f := range g.files {
		if strings.HasPrefix(name, works.Mounted+"/") && !f.dir {
			files[name] = works.File{Content: f.content, Mode: f.mode}
		}
	}
	return reply{http.StatusCreated, s.works.Publish(name, g.info.ID, files)}, nil
}
