package sandboxes

import (
	"context"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/files"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	octets = "application/octet-stream"
	// maxFile bounds one file that is written, in bytes: that of all outputs.
	maxFile = 10 << 30
)

// paths is what is said of paths in the document.
const paths = "Absolute, without dot segments. Symbolic links are followed by the guest, as its user"

type listIn struct {
	InSandbox

	Body api.SandboxList
}

func (d *door) registerFiles() {
	const files = "/v1/sandboxes/{sandbox}/files"
	where := append(spec.Path("sandbox"), spec.Must(spec.Query("path", "string", paths)), spec.Header(api.HeaderGeneration, "Under which the call is made"))
	d.routes.Stream(huma.Operation{
		OperationID: "read-sandbox-file", Method: http.MethodGet, Path: files, Tags: tags, Summary: "Read a file, byte for byte",
		Description: "HEAD says how long it is.", Parameters: where, Responses: spec.Answers(http.StatusOK, "The bytes", octets),
	}, read.Long(), d.readFile)
	d.routes.Stream(huma.Operation{
		OperationID: "write-sandbox-file", Method: http.MethodPut, Path: files, Tags: tags, Summary: "Write a file, byte for byte",
		Description: "Replaces it in one step when the last byte has come. Missing directories are made.",
		Parameters:  append(where, spec.Query("mode", "string", "Octal; default that of the file replaced, or 0644")),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(octets)},
		Responses:   d.routes.AnswersJSON(http.StatusCreated, api.FileInfo{}),
	}, write.Long().Size(route.Unlimited), d.writeFile)
	route.Call(d.routes, huma.Operation{
		OperationID: "list-sandbox-files", Method: http.MethodPost, Path: files + ":list", Tags: tags, Summary: "List a directory",
	}, read, d.listFiles)
}

func (d *door) listFiles(ctx context.Context, in *listIn) (*route.Reply[api.FileList], error) {
	if err := checkPath(in.Body.Path); err != nil {
		return nil, err
	}
	l, err := d.desk.Use(ctx, in.by(ctx), in.Sandbox)
	if err != nil {
		return nil, err
	}
	all, err := l.Files.List(ctx, guest.ListParams{PathParams: guest.PathParams{Path: in.Body.Path}, Recursive: in.Body.Recursive})
	out := api.FileList{Entries: make([]api.FileInfo, 0, len(all))}
	for _, f := range all {
		out.Entries = append(out.Entries, files.Info(f))
	}
	return &route.Reply[api.FileList]{Body: out}, err
}

// checkPath refuses what is not the one name of its file.
func checkPath(p string) error {
	if path.IsAbs(p) && path.Clean(p) == strings.TrimSuffix(p, "/")+rootOnly(p) && !strings.Contains(p, "\x00") {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "validation failed")
	e.Errors = []api.FieldError{{Location: "path", Message: "want an absolute path without dot segments"}}
	return e
}

// rootOnly gives the slash back that is all of a path.
func rootOnly(p string) string {
	if p == "/" {
		return p
	}
	return ""
}

// callerOf says who calls a route that is not huma's.
func callerOf(r *http.Request) (leases.Caller, error) {
	by := leases.Caller{Project: route.Project(r.Context())}
	text := r.Header.Get(api.HeaderGeneration)
	if text == "" {
		return by, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return by, api.Errorf(api.CodeInvalid, "%s: want a number", api.HeaderGeneration)
	}
	by.Generation = n
	return by, nil
}

// place finds the sandbox and the path of a request.
func (d *door) place(r *http.Request, q *param.Query) (*live.Desktop, guest.PathParams, error) {
	p := guest.PathParams{Path: q.Required("path")}
	if err := q.Err(); err != nil {
		return nil, p, err
	}
	if err := checkPath(p.Path); err != nil {
		return nil, p, err
	}
	by, err := callerOf(r)
	if err != nil {
		return nil, p, err
	}
	l, err := d.desk.Use(r.Context(), by, r.PathValue("sandbox"))
	return l, p, err
}

func (d *door) readFile(w http.ResponseWriter, r *http.Request) error {
	l, p, err := d.place(r, param.Of(r))
	if err != nil {
		return err
	}
	return files.Read(w, r, l.Files, p)
}

func (d *door) writeFile(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	mode := q.Mode("mode")
	l, p, err := d.place(r, q)
	if err != nil {
		return err
	}
	body := &kept{r: r.Body, left: maxFile}
	f, err := l.Files.Write(r.Context(), guest.WriteParams{PathParams: p, Mode: mode, MakeParents: true}, body)
	if err != nil {
		if body.err != nil {
			return body.err // what went wrong first
		}
		return err
	}
	return route.WriteJSON(w, http.StatusCreated, files.Info(f))
}

// kept is a body that remembers how it failed.
type kept struct {
	r    io.Reader
	left int64
	err  error
}

func (k *kept) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if k.left -= int64(n); k.left < 0 {
		n, err = 0, api.Errorf(api.CodeTooLarge, "the file is over %d bytes", int64(maxFile))
	}
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's end is bare
		k.err = err
	}
	return n, err
}
