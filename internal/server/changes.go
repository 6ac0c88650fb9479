package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// InPath names a path in a guest.
type InPath struct {
	InDesktop

	Path string `query:"path" required:"true" minLength:"1" doc:"Absolute, or relative to the user's home"`
	User string `query:"user" doc:"Who acts; default agent"`
}

func (in InPath) params() guest.PathParams { return guest.PathParams{Path: in.Path, User: in.User} }

type listFilesIn struct {
	InPath

	Recursive bool `query:"recursive"`
}

type removeIn struct {
	InPath

	Recursive bool `query:"recursive" doc:"A whole directory"`
}

type mkdirIn struct {
	InDesktop

	Body api.Mkdir
}

type renameIn struct {
	InDesktop

	Body api.Rename
}

type chmodIn struct {
	InDesktop

	Body api.Chmod
}

func (s *Server) registerChanges() {
	call(s, huma.Operation{
		OperationID: "stat", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/stat", Tags: []string{"files"}, Summary: "Describe a file",
	}, read, func(ctx context.Context, in *InPath) (*reply[api.FileInfo], error) {
		l, err := s.host.Guest(ctx, project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		info, err := l.Files.Stat(ctx, in.params())
		return &reply[api.FileInfo]{Body: fileInfo(info)}, err
	})
	call(s, huma.Operation{
		OperationID: "list-files", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/list", Tags: []string{"files"}, Summary: "List a directory",
	}, read, func(ctx context.Context, in *listFilesIn) (*reply[api.FileList], error) {
		l, err := s.host.Guest(ctx, project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		list, err := l.Files.List(ctx, guest.ListParams{PathParams: in.params(), Recursive: in.Recursive})
		out := api.FileList{Entries: make([]api.FileInfo, 0, len(list))}
		for _, f := range list {
			out.Entries = append(out.Entries, fileInfo(f))
		}
		return &reply[api.FileList]{Body: out}, err
	})
	change := func(id, method, tail, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: "/v1/desktops/{desktop}" + tail, Tags: []string{"files"},
			Summary: summary, DefaultStatus: http.StatusNoContent,
		}
	}
	call(s, change("remove-file", http.MethodDelete, "/files", "Remove a file or directory"), write.long(),
		func(ctx context.Context, in *removeIn) (*none, error) {
			return nil, s.change(ctx, in.Desktop, guest.RemoveParams{PathParams: in.params(), Recursive: in.Recursive})
		})
	call(s, change("mkdir", http.MethodPost, "/mkdir", "Make a directory"), write,
		func(ctx context.Context, in *mkdirIn) (*none, error) {
			return nil, s.change(ctx, in.Desktop, guest.MkdirParams{
				PathParams: guest.PathParams{Path: in.Body.Path}, Mode: in.Body.Mode, Parents: in.Body.Parents,
			})
		})
	call(s, change("rename", http.MethodPost, "/rename", "Move a file within the guest"), write,
		func(ctx context.Context, in *renameIn) (*none, error) {
			return nil, s.change(ctx, in.Desktop, guest.RenameParams{PathParams: guest.PathParams{Path: in.Body.From}, To: in.Body.To})
		})
	call(s, change("chmod", http.MethodPost, "/chmod", "Set permission bits"), write,
		func(ctx context.Context, in *chmodIn) (*none, error) {
			return nil, s.change(ctx, in.Desktop, guest.ChmodParams{PathParams: guest.PathParams{Path: in.Body.Path}, Mode: in.Body.Mode})
		})
}

func (s *Server) change(ctx context.Context, ref string, change any) error {
	l, err := s.host.Guest(ctx, project(ctx), ref)
	if err != nil {
		return err
	}
	return l.Files.Change(ctx, change)
}

func fileInfo(f guest.FileInfo) api.FileInfo {
	return api.FileInfo{
		Name: f.Name, Path: f.Path, Type: api.FileType(f.Type), Size: f.Size, Mode: f.Mode, MTime: f.MTime,
		User: f.User, Group: f.Group, Target: f.Target,
	}
}
