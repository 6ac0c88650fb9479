package view

import (
	"cmp"
	"context"
	"net/http"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/files"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// maxDrop bounds a file that is dropped, in bytes.
const maxDrop = 1 << 30

func (v *views) registerDrop() {
	v.routes.Stream(huma.Operation{
		OperationID: "drop-file", Method: http.MethodPut, Path: "/v1/desktops/{desktop}/dropped/{name}", Tags: []string{"control"},
		Summary:     "Put a file into the folder of the desktop for files that people drop",
		Description: "One that is there is not replaced. The desktop's control policy names the folder.",
		Parameters:  spec.Path("desktop", "name"),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary("application/octet-stream")},
		Responses:   v.routes.AnswersJSON(http.StatusCreated, api.FileInfo{}),
	}, route.Write.Long().Size(maxDrop).For(ticket.Control), v.drop)
	route.Call(v.routes, huma.Operation{
		OperationID: "list-dropped", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/dropped", Tags: []string{"control"},
		Summary: "List the folder of the desktop for files of people", Description: "It is empty before the first one.",
	}, route.Read.For(ticket.Control), v.dropped)
	v.routes.Stream(huma.Operation{
		OperationID: "read-dropped", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/dropped/{name}", Tags: []string{"control"},
		Summary:     "Read a file of the folder for files of people",
		Description: "Whatever the desktop has put there for them. One range of Range is honoured.",
		Parameters:  append(spec.Path("desktop", "name"), spec.Header("Range", "bytes=FROM-TO")),
		Responses:   spec.Answers(http.StatusOK, "The bytes", "application/octet-stream"),
	}, route.Read.Long().For(ticket.Control), v.fetch)
}

func (v *views) dropped(ctx context.Context, in *route.InDesktop) (*route.Reply[api.FileList], error) {
	d, err := v.Host.Desktop(ctx, route.Project(ctx), in.Desktop)
	if err != nil {
		return nil, err
	}
	l, err := v.Host.Guest(ctx, route.Project(ctx), in.Desktop)
	if err != nil {
		return nil, err
	}
	folder := guest.PathParams{Path: cmp.Or(d.ControlPolicy.Drop, api.DefaultDrop)}
	list, err := l.Files.List(ctx, guest.ListParams{PathParams: folder})
	if e := fault.From(err); e != nil && e.Code != api.CodeNotFound {
		return nil, err
	}
	out := api.FileList{Entries: make([]api.FileInfo, 0, len(list))}
	for _, f := range list {
		out.Entries = append(out.Entries, files.Info(f))
	}
	return &route.Reply[api.FileList]{Body: out}, nil
}

// fetch reads a plain file alone: a link would lead out of the folder.
func (v *views) fetch(w http.ResponseWriter, r *http.Request) error {
	ctx, ref := r.Context(), r.PathValue("desktop")
	d, err := v.Host.Desktop(ctx, route.Project(ctx), ref)
	if err != nil {
		return err
	}
	file, err := dropped(d.ControlPolicy, r.PathValue("name"))
	if err != nil {
		return err
	}
	l, err := v.Host.Guest(ctx, route.Project(ctx), ref)
	if err != nil {
		return err
	}
	info, err := l.Files.Stat(ctx, guest.PathParams{Path: file})
	if err != nil {
		return err
	}
	if info.Type != guest.TypeFile {
		return api.Errorf(api.CodeInvalid, "%s is no plain file", info.Path)
	}
	return files.Read(w, r, l.Files, guest.PathParams{Path: file})
}

func (v *views) drop(w http.ResponseWriter, r *http.Request) error {
	ctx, ref := r.Context(), r.PathValue("desktop")
	d, err := v.Host.Desktop(ctx, route.Project(ctx), ref)
	if err != nil {
		return err
	}
	file, err := dropped(d.ControlPolicy, r.PathValue("name"))
	if err != nil {
		return err
	}
	l, err := v.Host.Guest(ctx, route.Project(ctx), ref)
	if err != nil {
		return err
	}
	info, err := l.Files.Write(ctx, guest.WriteParams{PathParams: guest.PathParams{Path: file}, MakeParents: true, Exclusive: true}, r.Body)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusCreated, files.Info(info))
}

// dropped is where a file of a name lands: in the folder, whatever the name is.
func dropped(p api.ControlPolicy, name string) (string, error) {
	bad := name == "" || name == "." || name == ".." || len(name) > 255 || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsControl(r) })
	if bad {
		return "", api.Errorf(api.CodeInvalid, "a file that is dropped needs a plain name of at most 255 bytes")
	}
	return path.Join(cmp.Or(p.Drop, api.DefaultDrop), name), nil
}
