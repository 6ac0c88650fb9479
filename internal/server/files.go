package server

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/files"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	octets = "application/octet-stream"
	tarred = "application/x-tar"
)

func (s *Server) registerFiles() {
	const files, archive = "/v1/desktops/{desktop}/files", "/v1/desktops/{desktop}/archive"
	path, user := spec.Must(spec.Query("path", "string", "Absolute, or relative to the user's home")), spec.Query("user", "string", "Who acts; default agent")
	tags := []string{"files"}
	s.routes.Stream(huma.Operation{
		OperationID: "read-file", Method: http.MethodGet, Path: files, Tags: tags, Summary: "Read a file",
		Description: "One range of Range is honoured; If-None-Match and If-Range take the ETag.",
		Parameters:  append(spec.Path("desktop"), path, user, spec.Header("Range", "bytes=FROM-TO"), spec.Header("If-None-Match", "An ETag")),
		Responses:   spec.Answers(http.StatusOK, "The bytes", octets),
	}, route.Read.Long().For(ticket.Admin), s.readFile)
	s.routes.Stream(huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: files, Tags: tags, Summary: "Write a file",
		Description: "Replaces it in one step when the last byte has come; before that the old one stays. If-None-Match: * refuses to replace.",
		Parameters: append(spec.Path("desktop"), path, user, spec.Query("mode", "string", "Octal; default that of the file replaced, or 0644"),
			spec.Query("parents", "boolean", "Make missing directories"), spec.Header("If-None-Match", "*")),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(octets)},
		Responses:   s.routes.AnswersJSON(http.StatusCreated, api.FileInfo{}),
	}, route.Write.Long().Size(route.Unlimited).For(ticket.Admin), s.writeFile)
	s.routes.Stream(huma.Operation{
		OperationID: "read-archive", Method: http.MethodGet, Path: archive, Tags: tags, Summary: "Read a file or directory as a tar archive",
		Parameters: append(spec.Path("desktop"), path, user),
		Responses:  spec.Answers(http.StatusOK, "The archive", tarred),
	}, route.Read.Long(), s.readArchive)
	s.routes.Stream(huma.Operation{
		OperationID: "write-archive", Method: http.MethodPut, Path: archive, Tags: tags, Summary: "Extract a tar archive into a directory",
		Parameters:  append(spec.Path("desktop"), path, user),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(tarred)},
		Responses:   s.routes.AnswersJSON(http.StatusOK, api.Extracted{}),
	}, route.Write.Long().Size(route.Unlimited), s.writeArchive)
	s.routes.Stream(huma.Operation{
		OperationID: "watch-files", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/watch", Tags: tags,
		Summary:    "Watch a file or directory (server-sent events of FileChange)",
		Parameters: append(spec.Path("desktop"), path, user, spec.Query("recursive", "boolean", "")),
		Responses:  spec.Answers(http.StatusOK, "Events", "text/event-stream"),
	}, route.Read.Long(), s.watchFiles)
}

// guestPath reads desktop, path and user of a request.
func (s *Server) guestPath(r *http.Request, q *param.Query) (*live.Desktop, guest.PathParams, error) {
	p := guest.PathParams{Path: q.Required("path"), User: q.Text("user")}
	if err := q.Err(); err != nil {
		return nil, p, err
	}
	l, err := s.host.Guest(r.Context(), route.Project(r.Context()), r.PathValue("desktop"))
	return l, p, err
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request) error {
	l, p, err := s.guestPath(r, param.Of(r))
	if err != nil {
		return err
	}
	return files.Read(w, r, l.Files, p)
}

func (s *Server) writeFile(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	mode, parents := q.Mode("mode"), q.Bool("parents")
	l, p, err := s.guestPath(r, q)
	if err != nil {
		return err
	}
	info, err := l.Files.Write(r.Context(), guest.WriteParams{
		PathParams: p, Mode: mode, MakeParents: parents, Exclusive: r.Header.Get("If-None-Match") == "*",
	}, r.Body)
	if err != nil {
		return uploadFault(err)
	}
	return route.WriteJSON(w, http.StatusCreated, files.Info(info))
}

func (s *Server) readArchive(w http.ResponseWriter, r *http.Request) error {
	l, p, err := s.guestPath(r, param.Of(r))
	if err != nil {
		return err
	}
	out := stream.NewWriter(w, false, func(h http.Header) int {
		h.Set("Content-Type", tarred)
		return http.StatusOK
	})
	return l.Files.TarOut(r.Context(), p, out)
}

func (s *Server) writeArchive(w http.ResponseWriter, r *http.Request) error {
	l, p, err := s.guestPath(r, param.Of(r))
	if err != nil {
		return err
	}
	res, err := l.Files.TarIn(r.Context(), p, r.Body)
	if err != nil {
		return uploadFault(err)
	}
	// Padding after the end of the archive, so that the connection is used again.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return uploadFault(err)
	}
	return route.WriteJSON(w, http.StatusOK, api.Extracted{Entries: res.Entries, Bytes: res.Bytes})
}

func (s *Server) watchFiles(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	recursive := q.Bool("recursive")
	l, p, err := s.guestPath(r, q)
	if err != nil {
		return err
	}
	watcher, ok := l.Files.(live.Watcher)
	if !ok {
		return api.Errorf(api.CodeUnsupported, "this guest cannot watch files")
	}
	if _, err := l.Files.Stat(r.Context(), p); err != nil {
		return err
	}
	return route.Events(w, r, s.limits.Heartbeat, func(ctx context.Context, out *stream.Events) error {
		return watcher.Watch(ctx, guest.WatchParams{PathParams: p, Recursive: recursive}, func(c guest.FileChange) error {
			return out.Send(0, c.Op, api.FileChange{Op: c.Op, Path: c.Path})
		})
	})
}
