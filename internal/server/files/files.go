// Package files answers requests for files of a guest.
package files

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/ranged"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

const octets = "application/octet-stream"

// Read answers GET and HEAD of a file with its bytes, or with the range of them that
// was asked for, or says that they are known already.
func Read(w http.ResponseWriter, r *http.Request, from live.Files, p guest.PathParams) error {
	info, err := from.Stat(r.Context(), p)
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
	if err := from.Read(r.Context(), guest.ReadParams{PathParams: p, Offset: part.From, N: n}, out); err != nil {
		return err
	}
	return out.Begin() // an empty file
}

// Info is a file as the API tells of it.
func Info(f guest.FileInfo) api.FileInfo {
	return api.FileInfo{
		Name: f.Name, Path: f.Path, Type: api.FileType(f.Type), Size: f.Size, Mode: f.Mode, MTime: f.MTime,
		User: f.User, Group: f.Group, Target: f.Target,
	}
}
