package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/ranged"
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
	s.stream(huma.Operation{
		OperationID: "read-file", Method: http.MethodGet, Path: files, Tags: tags, Summary: "Read a file",
		Description: "One range of Range is honoured; If-None-Match and If-Range take the ETag.",
		Parameters:  append(spec.Path("desktop"), path, user, spec.Header("Range", "bytes=FROM-TO"), spec.Header("If-None-Match", "An ETag")),
		Responses:   spec.Answers(http.StatusOK, "The bytes", octets),
	}, read.long(), s.readFile)
	s.stream(huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: files, Tags: tags, Summary: "Write a file",
		Description: "Replaces it in one step when the last byte has come; before that the old one stays. If-None-Match: * refuses to replace.",
		Parameters: append(spec.Path("desktop"), path, user, spec.Query("mode", "string", "Octal; default that of the file replaced, or 0644"),
			spec.Query("parents", "boolean", "Make missing directories"), spec.Header("If-None-Match", "*")),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(octets)},
		Responses:   s.answersJSON(http.StatusCreated, api.FileInfo{}),
	}, write.long().size(unlimited), s.writeFile)
	s.stream(huma.Operation{
		OperationID: "read-archive", Method: http.MethodGet, Path: archive, Tags: tags, Summary: "Read a file or directory as a tar archive",
		Parameters: append(spec.Path("desktop"), path, user),
		Responses:  spec.Answers(http.StatusOK, "The archive", tarred),
	}, read.long(), s.readArchive)
	s.stream(huma.Operation{
		OperationID: "write-archive", Method: http.MethodPut, Path: archive, Tags: tags, Summary: "Extract a tar archive into a directory",
		Parameters:  append(spec.Path("desktop"), path, user),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(tarred)},
		Responses:   s.answersJSON(http.StatusOK, api.Extracted{}),
	}, write.long().size(unlimited), s.writeArchive)
	s.stream(huma.Operation{
		OperationID: "watch-files", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/watch", Tags: tags,
		Summary:    "Watch a file or directory (server-sent events of FileChange)",
		Parameters: append(spec.Path("desktop"), path, user, spec.Query("recursive", "boolean", "")),
		Responses:  spec.Answers(http.StatusOK, "Events", "text/event-stream"),
	}, read.long(), s.watchFiles)
}

// guestPath reads desktop, path and user of a request.
func (s *Server) guestPath(r *http.Request, q *param.Query) (*live.Desktop, guest.PathParams, error) {
	p := guest.PathParams{Path: q.Required("path"), User: q.Text("user")}
	if err := q.Err(); err != nil {
		return nil, p, err
	}
	l, err := s.host.Guest(r.Context(), project(r.Context()), r.PathValue("desktop"))
	return l, p, err
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request) error {
	l, p, err := s.guestPath(r, param.Of(r))
	if err != nil {
		return err
	}
	info, err := l.Files.Stat(r.Context(), p)
	if err != nil {
		return err
	}
	if info.Type == guest.TypeDir {
		e := api.Errorf(api.CodeInvalid, "%s is a directory", info.Path)
		e.Hint = "list it, or read it as an archive"
		return e
	}
	tag := fmt.Sprintf(`"%x-%x"`, info.MTime.UnixNano(), info.Size)
	head := w.Header()
	head.Set("ETag", tag)
	if ranged.Matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, partial, err := ranged.Parse(r, tag, info.Size)
	if err != nil {
		head.Set("Content-Range", "bytes */"+strconv.FormatInt(info.Size, 10))
		return err
	}
	begin := func(h http.Header) int {
		h.Set("Content-Type", octets)
		h.Set("Accept-Ranges", "bytes")
		h.Set("Last-Modified", info.MTime.UTC().Format(http.TimeFormat))
		// What the kernel makes up as it is read says 0 for its size.
		if info.Type == guest.TypeFile && info.Size > 0 {
			h.Set("Content-Length", strconv.FormatInt(part.Len, 10))
		}
		if partial {
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.From, part.From+part.Len-1, info.Size))
			return http.StatusPartialContent
		}
		return http.StatusOK
	}
	out := stream.NewWriter(w, false, begin)
	if r.Method == http.MethodHead {
		return out.Begin()
	}
	n := int64(-1)
	if info.Size > 0 {
		n = part.Len
	}
	if err := l.Files.Read(r.Context(), guest.ReadParams{PathParams: p, Offset: part.From, N: n}, out); err != nil {
		return err
	}
	return out.Begin() // an empty file
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
	return writeJSON(w, http.StatusCreated, fileInfo(info))
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
	return writeJSON(w, http.StatusOK, api.Extracted{Entries: res.Entries, Bytes: res.Bytes})
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
	return s.events(w, r, func(ctx context.Context, out *stream.Events) error {
		return watcher.Watch(ctx, guest.WatchParams{PathParams: p, Recursive: recursive}, func(c guest.FileChange) error {
			return out.Send(0, c.Op, api.FileChange{Op: c.Op, Path: c.Path})
		})
	})
}
