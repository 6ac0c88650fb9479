package desktops

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
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
	}, route.Write.Long().ForProject(ticket.Control), func(ctx context.Context, in *snapshotIn) (*snapshotOut, error) {
		v, err := d.host.Snapshots.Create(ctx, route.Project(ctx), in.Desktop, in.Body, in.Key)
		return &snapshotOut{Location: "/v1/snapshots/" + v.ID, Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-snapshots", Method: http.MethodGet, Path: "/v1/snapshots", Tags: tags,
		Summary: "List the snapshots of the token's project, newest first",
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, _ *struct{}) (*route.Reply[api.SnapshotList], error) {
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

type exportIn struct {
	Snapshot string `path:"snapshot" maxLength:"63" doc:"Name or id"`
	Body     api.ExportSnapshot
}

type exportRef struct {
	Export string `path:"export" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Name"`
}

type importIn struct {
	Export string `path:"export" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Name"`
	Body   api.ImportSnapshot
}

// registerStored is what moves snapshots between host and blob store.
func (d *desk) registerStored() {
	tags := []string{"snapshots"}
	route.Call(d.routes, huma.Operation{
		OperationID: "store-snapshot", Method: http.MethodPost, Path: "/v1/snapshots/{snapshot}/exports", Tags: tags,
		Summary: "Keep a snapshot in the blob store under a name", DefaultStatus: http.StatusCreated,
		Description: "With all that it stands on, except its image, compressed, encrypted, and in parts whose digests are kept. " +
			"It needs a store that encrypts.",
	}, route.Write.Long(), func(ctx context.Context, in *exportIn) (*route.Reply[api.SnapshotExport], error) {
		made, err := d.host.Exports.Export(ctx, route.Project(ctx), in.Snapshot, in.Body.Name)
		return &route.Reply[api.SnapshotExport]{Body: made}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-snapshot-exports", Method: http.MethodGet, Path: "/v1/snapshot-exports", Tags: tags,
		Summary: "List the project's snapshots in the blob store, by name",
	}, route.Read, func(ctx context.Context, _ *struct{}) (*route.Reply[api.SnapshotExportList], error) {
		list, err := d.host.Exports.List(ctx, route.Project(ctx))
		return &route.Reply[api.SnapshotExportList]{Body: api.SnapshotExportList{Exports: list}}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "delete-snapshot-export", Method: http.MethodDelete, Path: "/v1/snapshot-exports/{export}", Tags: tags,
		Summary: "Remove a snapshot from the blob store", Description: "Snapshots that were imported from it stay.",
		DefaultStatus: http.StatusNoContent,
	}, route.Write.Long(), func(ctx context.Context, in *exportRef) (*route.None, error) {
		return nil, d.host.Exports.Remove(ctx, route.Project(ctx), in.Export)
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "import-snapshot-export", Method: http.MethodPost, Path: "/v1/snapshot-exports/{export}/import", Tags: tags,
		Summary: "Keep a snapshot from the blob store under a name", DefaultStatus: http.StatusCreated,
		Description: "The host needs the snapshot's image, and the hypervisor and class of CPU that it was made on. " +
			"All of it is verified before it is listed; an object that is missing or damaged is named.",
	}, route.Write.Long(), func(ctx context.Context, in *importIn) (*snapshotOut, error) {
		v, err := d.host.Exports.Import(ctx, route.Project(ctx), in.Export, in.Body.Name)
		return &snapshotOut{Location: "/v1/snapshots/" + v.ID, Body: v}, err
	})
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
