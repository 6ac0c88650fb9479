package desktops

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

type snapshotIn struct {
	route.InDesktop

	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable within 24 hours"`
	Body api.CreateSnapshot
}

type snapshotOut struct {
	Location string `header:"Location"`
	Body     api.Snapshot
}

type snapshotRef struct {
	Snapshot string `path:"snapshot" maxLength:"63" doc:"Name or id"`
}

func (d *desk) registerSnapshots() {
	tags := []string{"snapshots"}
	route.Call(d.routes, huma.Operation{
		OperationID: "create-snapshot", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/snapshots", Tags: tags,
		Summary: "Keep the present instant of a desktop under a name", DefaultStatus: http.StatusCreated,
		Description: "Memory, screen, running programs and disks. The desktop goes on. It answers when all is on disk and its digest is known.",
	}, route.Write.Long(), func(ctx context.Context, in *snapshotIn) (*snapshotOut, error) {
		v, err := d.host.Snapshots.Create(ctx, route.Project(ctx), in.Desktop, in.Body, in.Key)
		return &snapshotOut{Location: "/v1/snapshots/" + v.ID, Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-snapshots", Method: http.MethodGet, Path: "/v1/snapshots", Tags: tags,
		Summary: "List the snapshots of the token's project, newest first",
	}, route.Read, func(ctx context.Context, _ *struct{}) (*route.Reply[api.SnapshotList], error) {
		list, err := d.host.Snapshots.List(ctx, route.Project(ctx))
		return &route.Reply[api.SnapshotList]{Body: api.SnapshotList{Snapshots: list}}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "get-snapshot", Method: http.MethodGet, Path: "/v1/snapshots/{snapshot}", Tags: tags, Summary: "Describe a snapshot",
	}, route.Read, func(ctx context.Context, in *snapshotRef) (*route.Reply[api.Snapshot], error) {
		v, err := d.host.Snapshots.Get(ctx, route.Project(ctx), in.Snapshot)
		return &route.Reply[api.Snapshot]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "delete-snapshot", Method: http.MethodDelete, Path: "/v1/snapshots/{snapshot}", Tags: tags,
		Summary: "Remove a snapshot", Description: "Desktops that stand on it go on.", DefaultStatus: http.StatusNoContent,
	}, route.Write.Long(), func(ctx context.Context, in *snapshotRef) (*route.None, error) {
		return nil, d.host.Snapshots.Remove(ctx, route.Project(ctx), in.Snapshot)
	})
}

func (d *desk) registerExports() {
	tags := []string{"snapshots"}
	d.routes.Stream(huma.Operation{
		OperationID: "export-snapshot", Method: http.MethodGet, Path: "/v1/snapshots/{snapshot}/export", Tags: tags,
		Summary: "Read a snapshot as one stream",
		Description: "With all that it stands on, except its image. It holds the desktop's memory and every secret in it. " +
			"An answer that breaks off is not whole.",
		Parameters: spec.Path("snapshot"),
		Responses:  spec.Answers(http.StatusOK, "The snapshot", api.SnapshotMIME),
	}, route.Write.Long(), d.export)
	d.routes.Stream(huma.Operation{
		OperationID: "import-snapshot", Method: http.MethodPost, Path: "/v1/snapshots/import", Tags: tags,
		Summary: "Keep an exported snapshot under a name",
		Description: "The host needs the snapshot's image, and the hypervisor and class of CPU that it was made on. " +
			"All of it is verified before it is listed.",
		Parameters:  []*huma.Param{spec.Must(spec.Query("name", "string", "Unique in the project"))},
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary(api.SnapshotMIME)},
		Responses:   d.routes.AnswersJSON(http.StatusCreated, api.Snapshot{}),
	}, route.Write.Long().Size(route.Unlimited), d.load)
}

// export asks for the right to write: a snapshot's memory holds what reading a
// desktop alone does not show.
func (d *desk) export(w http.ResponseWriter, r *http.Request) error {
	project := route.Project(r.Context())
	snap, err := d.host.Snapshots.Get(r.Context(), project, r.PathValue("snapshot"))
	if err != nil {
		return err
	}
	name := snap.Name
	if name == "" {
		name = snap.ID
	}
	out := stream.Attachment(w, api.SnapshotMIME, name+".zst")
	if r.Method == http.MethodHead {
		return out.Begin()
	}
	if err := d.host.Snapshots.Export(r.Context(), project, snap.ID, out); err != nil {
		return fault.At("export", err)
	}
	return nil
}

func (d *desk) load(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	name := q.Name("name")
	if err := q.Err(); err != nil {
		return err
	}
	v, err := d.host.Snapshots.Import(r.Context(), route.Project(r.Context()), name, r.Body)
	if err != nil {
		return fault.At("import", err)
	}
	w.Header().Set("Location", "/v1/snapshots/"+v.ID)
	return route.WriteJSON(w, http.StatusCreated, v)
}
