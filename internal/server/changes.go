package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/files"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// InPath names a path in a guest.
type InPath struct {
	route.InDesktop

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
	route.InDesktop

	Body api.Mkdir
}

type renameIn struct {
	route.InDesktop

	Body api.Rename
}

type chmodIn struct {
	route.InDesktop

	Body api.Chmod
}

func (s *Server) registerChanges() {
	route.Call(s.routes, huma.Operation{
		OperationID: "stat", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/stat", Tags: []string{"files"}, Summary: "Describe a file",
	}, route.Read, func(ctx context.Context, in *InPath) (*route.Reply[api.FileInfo], error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		info, err := l.Files.Stat(ctx, in.params())
		return &route.Reply[api.FileInfo]{Body: files.Info(info)}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "list-files", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/list", Tags: []string{"files"}, Summary: "List a directory",
	}, route.Read.For(ticket.Admin), func(ctx context.Context, in *listFilesIn) (*route.Reply[api.FileList], error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		list, err := l.Files.List(ctx, guest.ListParams{PathParams: in.params(), Recursive: in.Recursive})
		out := api.FileList{Entries: make([]api.FileInfo, 0, len(list))}
		for _, f := range list {
			out.Entries = append(out.Entries, files.Info(f))
		}
		return &route.Reply[api.FileList]{Body: out}, err
	})
	change := func(id, method, tail, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: "/v1/desktops/{desktop}" + tail, Tags: []string{"files"},
			Summary: summary, DefaultStatus: http.StatusNoContent,
		}
	}
	route.Call(s.routes, change("remove-file", http.MethodDelete, "/files", "Remove a file or directory"), route.Write.Long(),
		func(ctx context.Context, in *removeIn) (*route.None, error) {
			return nil, s.change(ctx, in.Desktop, guest.RemoveParams{PathParams: in.params(), Recursive: in.Recursive})
		})
	route.Call(s.routes, change("mkdir", http.MethodPost, "/mkdir", "Make a directory"), route.Write,
		func(ctx context.Context, in *mkdirIn) (*route.None, error) {
			return nil, s.change(ctx, in.Desktop, guest.MkdirParams{
				PathParams: guest.PathParams{Path: in.Body.Path}, Mode: in.Body.Mode, Parents: in.Body.Parents,
			})
		})
	route.Call(s.routes, change("rename", http.MethodPost, "/rename", "Move a file within the guest"), route.Write,
		func(ctx context.Context, in *renameIn) (*route.None, error) {
			return nil, s.change(ctx, in.Desktop, guest.RenameParams{PathParams: guest.PathParams{Path: in.Body.From}, To: in.Body.To})
		})
	route.Call(s.routes, change("chmod", http.MethodPost, "/chmod", "Set permission bits"), route.Write,
		func(ctx context.Context, in *chmodIn) (*route.None, error) {
			return nil, s.change(ctx, in.Desktop, guest.ChmodParams{PathParams: guest.PathParams{Path: in.Body.Path}, Mode: in.Body.Mode})
		})
}

func (s *Server) change(ctx context.Context, ref string, change any) error {
	l, err := s.host.Guest(ctx, route.Project(ctx), ref)
	if err != nil {
		return err
	}
	return l.Files.Change(ctx, change)
}
