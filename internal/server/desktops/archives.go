package desktops

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/archive"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

// aside says how files are reached.
const aside = "The guest of a desktop that lives as long as the call, without a network, reads or writes the file system: the host never does. " +
	"An answer that breaks off is not whole."

// workspaceName is the pattern of api.CreateCheckpoint.Workspace.
var workspaceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

func (d *desk) registerArchives() {
	const path = "/v1/workspaces/{workspace}/archive"
	tags := []string{"workspaces"}
	image := spec.Must(spec.Query("image", "string", "Image of the desktop; it has GNU tar"))
	d.routes.Stream(huma.Operation{
		OperationID: "export-workspace", Method: http.MethodGet, Path: path, Tags: tags,
		Summary:     "Read the files of a checkpoint as tar",
		Description: "In POSIX's format, sorted by name: owners, modes, times, extended attributes, ACLs, links, devices and holes as they are. " + aside,
		Parameters:  append(spec.Path("workspace"), image),
		Responses:   spec.Answers(http.StatusOK, "The files", api.TarMIME),
	}, route.Write.Long(), d.exportFiles)
	d.routes.Stream(huma.Operation{
		OperationID: "import-workspace", Method: http.MethodPut, Path: path, Tags: tags,
		Summary:     "Publish the files of a tar in a workspace",
		Description: "It is made at need. Nothing is published unless all has come and was written. " + aside,
		Parameters: append(spec.Path("workspace"), image, spec.Query("size_mib", "integer", "Of the disk; default 10240"),
			spec.Query("replace", "boolean", "Publish even over what the workspace is at")),
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(api.TarMIME)},
		Responses:   d.routes.AnswersJSON(http.StatusCreated, api.Checkpoint{}),
	}, route.Write.Long().Size(route.Unlimited), d.importFiles)
	d.routes.Schema(api.FileDifference{})
	d.routes.Stream(huma.Operation{
		OperationID: "diff-workspaces", Method: http.MethodGet, Path: "/v1/workspaces/{workspace}/diff", Tags: tags,
		Summary:     "Tell the files of two checkpoints apart",
		Description: "One FileDifference in JSON a line, sorted by path, for each file that is not the same; contents are compared, not times alone. " + aside,
		Parameters:  append(spec.Path("workspace"), spec.Must(spec.Query("to", "string", "The other one: name or id, or workspace@checkpoint")), image),
		Responses:   spec.Answers(http.StatusOK, "The differences", api.LinesMIME),
	}, route.Write.Long(), d.diff)
}

func (d *desk) exportFiles(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	word, image := r.PathValue("workspace"), q.Required("image")
	if err := q.Err(); err != nil {
		return err
	}
	name, _, _ := strings.Cut(word, "@")
	out := stream.Attachment(w, api.TarMIME, name+".tar")
	if r.Method == http.MethodHead {
		return out.Begin()
	}
	if err := d.host.Archives.Export(r.Context(), route.Project(r.Context()), word, image, out); err != nil {
		return fault.At("export", err)
	}
	return nil
}

func (d *desk) importFiles(w http.ResponseWriter, r *http.Request) error {
	const most = math.MaxInt64 >> 20
	q := param.Of(r)
	req := api.ImportWorkspace{Image: q.Required("image"), SizeMiB: q.Int64("size_mib", 0), Replace: q.Bool("replace")}
	if req.SizeMiB < 0 || req.SizeMiB > most {
		q.Bad("size_mib", "want a size in MiB")
	}
	name := r.PathValue("workspace")
	if !workspaceName().MatchString(name) {
		return api.Errorf(api.CodeInvalid, "workspace %q: a name is 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends", name)
	}
	if err := q.Err(); err != nil {
		return err
	}
	c, err := d.host.Archives.Import(r.Context(), route.Project(r.Context()), name, req, r.Body)
	if err != nil {
		return fault.At("import", err)
	}
	return route.WriteJSON(w, http.StatusCreated, c)
}

func (d *desk) diff(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	to, image := q.Required("to"), q.Required("image")
	if err := q.Err(); err != nil {
		return err
	}
	out := stream.NewWriter(w, true, func(h http.Header) int {
		h.Set("Content-Type", api.LinesMIME)
		h.Set("Cache-Control", "no-store")
		return http.StatusOK
	})
	if r.Method == http.MethodHead {
		return out.Begin()
	}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	of := archive.Comparison{Before: r.PathValue("workspace"), After: to, Image: image}
	err := d.host.Archives.Diff(r.Context(), route.Project(r.Context()), of, func(f api.FileDifference) error {
		return lines.Encode(f)
	})
	if err != nil {
		return fault.At("diff", err)
	}
	return out.Begin() // none
}
