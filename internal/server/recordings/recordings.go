// Package recordings serves the recordings of desktops.
package recordings

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/recording"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/ranged"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/internal/server/view"
	"github.com/deskfork/deskfork/pkg/api"
)

type inHolder struct {
	route.InDesktop

	Holder string `header:"Deskfork-Holder" maxLength:"128" doc:"Who records; default: the token"`
}

type inRecording struct {
	route.InDesktop

	ID     string `path:"id" maxLength:"63"`
	Holder string `header:"Deskfork-Holder" maxLength:"128" doc:"Who deletes; default: the token"`
}

type desk struct{ *recording.Desk }

// Register registers the routes.
func Register(routes *route.Table, d *recording.Desk) {
	k := desk{d}
	const path = "/v1/desktops/{desktop}/recordings"
	tags := []string{"recordings"}
	route.Call(routes, huma.Operation{
		OperationID: "start-recording", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Record what is seen on a desktop", DefaultStatus: http.StatusCreated,
		Description: "The pictures are those of who watches; nothing is encoded twice. It ends when it is stopped, with its machine, with the host, " +
			"or before the disk is full. A screen of another size goes on in another recording, which follows this one.",
	}, route.Write.Long().For(ticket.Control), k.start)
	route.Call(routes, huma.Operation{
		OperationID: "stop-recording", Method: http.MethodPost, Path: path + "/stop", Tags: tags,
		Summary: "End the recording of a desktop",
	}, route.Write.Long().For(ticket.Control), k.stop)
	route.Call(routes, huma.Operation{
		OperationID: "list-recordings", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the recordings of a desktop, newest first", Description: "One that is deleted is known by its id, while there are some.",
	}, route.Read.For(ticket.View), k.list)
	routes.Stream(huma.Operation{
		OperationID: "read-recording", Method: http.MethodGet, Path: path + "/{id}", Tags: tags,
		Summary:     "Read the file of a recording",
		Description: "WebM. While it runs the file grows, and is seekable only when it has ended. One range of Range is honoured.",
		Parameters:  append(spec.Path("desktop", "id"), spec.Header("Range", "bytes=FROM-TO")),
		Responses:   spec.Answers(http.StatusOK, "The file", api.WebMMIME),
	}, route.Read.Long().For(ticket.View), k.read)
	route.Call(routes, huma.Operation{
		OperationID: "delete-recording", Method: http.MethodDelete, Path: path + "/{id}", Tags: tags,
		Summary: "Delete a recording that has ended",
	}, route.Write.For(ticket.Admin), k.remove)
}

func (d desk) start(ctx context.Context, in *inHolder) (*route.Reply[api.Recording], error) {
	r, err := d.Start(ctx, route.Project(ctx), in.Desktop, view.Holder(ctx, in.Holder, api.ControlPerson))
	return &route.Reply[api.Recording]{Body: r}, err
}

func (d desk) stop(ctx context.Context, in *route.InDesktop) (*route.Reply[api.Recording], error) {
	r, err := d.Stop(ctx, route.Project(ctx), in.Desktop)
	return &route.Reply[api.Recording]{Body: r}, err
}

func (d desk) list(ctx context.Context, in *route.InDesktop) (*route.Reply[api.RecordingList], error) {
	list, err := d.List(ctx, route.Project(ctx), in.Desktop)
	return &route.Reply[api.RecordingList]{Body: api.RecordingList{Recordings: list}}, err
}

func (d desk) remove(ctx context.Context, in *inRecording) (*route.None, error) {
	return nil, d.Remove(ctx, route.Project(ctx), in.Desktop, in.ID, view.Holder(ctx, in.Holder, api.ControlPerson))
}

func (d desk) read(w http.ResponseWriter, r *http.Request) error {
	f, about, err := d.Read(r.Context(), route.Project(r.Context()), r.PathValue("desktop"), r.PathValue("id"))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read recording: %w", err)
	}
	size := info.Size()
	tag := fmt.Sprintf(`"%s-%s-%x"`, about.ID, about.State, size)
	head := w.Header()
	head.Set("ETag", tag)
	// It is nobody's on the way, and the browser asks whether it is still allowed.
	head.Set("Cache-Control", "private, no-cache")
	if ranged.Matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, partial, err := ranged.Parse(r, tag, size)
	if err != nil {
		head.Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
		return err
	}
	out := stream.NewWriter(w, false, func(h http.Header) int {
		h.Set("Content-Type", api.WebMMIME)
		h.Set("Accept-Ranges", "bytes")
		h.Set("Content-Length", strconv.FormatInt(part.Len, 10))
		if partial {
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.From, part.From+part.Len-1, size))
			return http.StatusPartialContent
		}
		return http.StatusOK
	})
	if r.Method == http.MethodHead {
		return out.Begin()
	}
	if _, err := io.Copy(out, io.NewSectionReader(f, part.From, part.Len)); err != nil {
		return err
	}
	return out.Begin()
}
