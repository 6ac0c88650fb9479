package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/live"
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
	path, user := must(query("path", "string", "Absolute, or relative to the user's home")), query("user", "string", "Who acts; default agent")
	tags := []string{"files"}
	s.stream(huma.Operation{
		OperationID: "read-file", Method: http.MethodGet, Path: files, Tags: tags, Summary: "Read a file",
		Description: "One range of Range is honoured; If-None-Match and If-Range take the ETag.",
		Parameters:  append(pathParams("desktop"), path, user, header("Range", "bytes=FROM-TO"), header("If-None-Match", "An ETag")),
		Responses:   answers(http.StatusOK, "The bytes", octets),
	}, read.long(), s.readFile)
	s.stream(huma.Operation{
		OperationID: "write-file", Method: http.MethodPut, Path: files, Tags: tags, Summary: "Write a file",
		Description: "Replaces it in one step when the last byte has come; before that the old one stays. If-None-Match: * refuses to replace.",
		Parameters: append(pathParams("desktop"), path, user, query("mode", "string", "Octal; default that of the file replaced, or 0644"),
			query("parents", "boolean", "Make missing directories"), header("If-None-Match", "*")),
		RequestBody: &huma.RequestBody{Required: true, Content: binary(octets)},
		Responses:   s.answersJSON(http.StatusCreated, api.FileInfo{}),
	}, write.long().size(unlimited), s.writeFile)
	s.stream(huma.Operation{
		OperationID: "read-archive", Method: http.MethodGet, Path: archive, Tags: tags, Summary: "Read a file or directory as a tar archive",
		Parameters: append(pathParams("desktop"), path, user),
		Responses:  answers(http.StatusOK, "The archive", tarred),
	}, read.long(), s.readArchive)
	s.stream(huma.Operation{
		OperationID: "write-archive", Method: http.MethodPut, Path: archive, Tags: tags, Summary: "Extract a tar archive into a directory",
		Parameters:  append(pathParams("desktop"), path, user),
		RequestBody: &huma.RequestBody{Required: true, Content: binary(tarred)},
		Responses:   s.answersJSON(http.StatusOK, api.Extracted{}),
	}, write.long().size(unlimited), s.writeArchive)
	s.stream(huma.Operation{
		OperationID: "watch-files", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/watch", Tags: tags,
		Summary:    "Watch a file or directory (server-sent events of FileChange)",
		Parameters: append(pathParams("desktop"), path, user, query("recursive", "boolean", "")),
		Responses:  answers(http.StatusOK, "Events", "text/event-stream"),
	}, read.long(), s.watchFiles)
}

// guestPath reads desktop, path and user of a request.
func (s *Server) guestPath(r *http.Request, q *params) (*live.Desktop, guest.PathParams, error) {
	p := guest.PathParams{Path: q.required("path"), User: q.text("user")}
	if err := q.err(); err != nil {
		return nil, p, err
	}
	l, err := s.host.Guest(r.Context(), project(r.Context()), r.PathValue("desktop"))
	return l, p, err
}

func (s *Server) readFile(w http.ResponseWriter, r *http.Request) error {
	l, p, err := s.guestPath(r, &params{r: r})
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
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	part, partial, err := byteRange(r, tag, info.Size)
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
			h.Set("Content-Length", strconv.FormatInt(part.n, 10))
		}
		if partial {
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.from, part.from+part.n-1, info.Size))
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
		n = part.n
	}
	if err := l.Files.Read(r.Context(), guest.ReadParams{PathParams: p, Offset: part.from, N: n}, out); err != nil {
		return err
	}
	return out.Begin() // an empty file
}

type span struct{ from, n int64 }

// byteRange reads a Range header of one range. A header of several, or one that
// an If-Range makes void, is ignored, as RFC 9110 allows.
func byteRange(r *http.Request, tag string, size int64) (part span, partial bool, err error) {
	all := span{0, size}
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if v := r.Header.Get("If-Range"); !ok || size == 0 || strings.Contains(text, ",") || (v != "" && v != tag) {
		return all, false, nil
	}
	first, last, ok := strings.Cut(strings.TrimSpace(text), "-")
	if !ok {
		return all, false, nil
	}
	from, to := int64(0), size-1
	var err1, err2 error
	switch {
	case first == "": // the last bytes
		var n int64
		n, err1 = strconv.ParseInt(last, 10, 64)
		from = max(size-n, 0)
		if n <= 0 {
			from = size
		}
	default:
		from, err1 = strconv.ParseInt(first, 10, 64)
		if last != "" {
			to, err2 = strconv.ParseInt(last, 10, 64)
			to = min(to, size-1)
		}
	}
	if err1 != nil || err2 != nil || from < 0 {
		return all, false, nil
	}
	if from >= size || to < from {
		e := api.Errorf(api.CodeInvalid, "range %q is not within %d bytes", text, size)
		e.Status, e.Title = http.StatusRequestedRangeNotSatisfiable, http.StatusText(http.StatusRequestedRangeNotSatisfiable)
		return all, false, e
	}
	return span{from, to - from + 1}, true, nil
}

// matches says whether an If-None-Match header names a tag.
func matches(header, tag string) bool {
	if header == "*" {
		return true
	}
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t != "" && t == tag {
			return true
		}
	}
	return false
}

func (s *Server) writeFile(w http.ResponseWriter, r *http.Request) error {
	q := &params{r: r}
	mode, parents := q.mode("mode"), q.bool("parents")
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
	l, p, err := s.guestPath(r, &params{r: r})
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
	l, p, err := s.guestPath(r, &params{r: r})
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
	q := &params{r: r}
	recursive := q.bool("recursive")
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
