// Package runs is the routes of commands that are run in workspaces.
package runs

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

// maxRun bounds a request with its input, in bytes.
const maxRun = 8 << 20

// desk is the routes of runs.
type desk struct {
	routes *route.Table
	desk   *sessions.Desk
	beat   time.Duration
}

// Register registers the routes; beat is the pause between signs of life.
func Register(t *route.Table, d *sessions.Desk, beat time.Duration) {
	r := &desk{routes: t, desk: d, beat: beat}
	r.registerRuns()
	r.registerPrune()
	r.registerPublished()
	r.registerStreams()
	t.Schema(api.RunEvent{})
}

type startIn struct {
	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable as long as the run is known"`
	Body api.StartRun
}

type startOut struct {
	Location string `header:"Location"`
	Body     api.Run
}

type inRun struct {
	Run string `path:"run" maxLength:"12"`
}

func (d *desk) registerRuns() {
	tags := []string{"runs"}
	const one = "/v1/runs/{run}"
	route.Call(d.routes, huma.Operation{
		OperationID: "start-run", Method: http.MethodPost, Path: "/v1/runs", Tags: tags,
		Summary: "Run a command in a workspace, in a machine of its own", DefaultStatus: http.StatusCreated,
		Description: "Answers at once; its events tell the rest. What the command leaves in the workspace counts when it ended with " +
			"exit status 0, and not before. Who goes away ends nothing.",
	}, route.Write.Size(maxRun), func(ctx context.Context, in *startIn) (*startOut, error) {
		v, err := d.desk.Start(ctx, route.Project(ctx), in.Body, in.Key)
		return &startOut{Location: "/v1/runs/" + v.ID, Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/runs", Tags: tags, Summary: "List the runs that are known, newest first",
	}, route.Read, func(ctx context.Context, _ *struct{}) (*route.Reply[api.RunList], error) {
		return &route.Reply[api.RunList]{Body: api.RunList{Runs: d.desk.List(route.Project(ctx))}}, nil
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: one, Tags: tags, Summary: "Describe a run",
	}, route.Read, func(ctx context.Context, in *inRun) (*route.Reply[api.Run], error) {
		v, err := d.desk.Get(route.Project(ctx), in.Run)
		return &route.Reply[api.Run]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: one + "/cancel", Tags: tags,
		Summary: "Ask a run to end; its events tell when it has", Description: "Nothing since its last publication counts. One that has ended stays as it is.",
	}, route.Write, func(ctx context.Context, in *inRun) (*route.Reply[api.Run], error) {
		v, err := d.desk.Cancel(route.Project(ctx), in.Run)
		return &route.Reply[api.Run]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-outputs", Method: http.MethodGet, Path: one + "/outputs", Tags: tags,
		Summary: "List the deliverables that a run has published, by path",
	}, route.Read, func(ctx context.Context, in *inRun) (*route.Reply[api.OutputList], error) {
		v, err := d.desk.Outputs(ctx, route.Project(ctx), in.Run)
		return &route.Reply[api.OutputList]{Body: v}, err
	})
}

func (d *desk) registerPrune() {
	route.Call(d.routes, huma.Operation{
		OperationID: "prune-outputs", Method: http.MethodPost, Path: "/v1/prune-outputs", Tags: []string{"runs"},
		Summary: "Remove outputs of runs that a policy does not keep, of all projects, and inputs that no run needs",
		Description: "Nothing goes that the newest publication of a workspace names, or that a run, a publication or a download in progress needs; " +
			"and nothing that is younger than a day.",
	}, route.Admin.Long(), func(ctx context.Context, in *struct{ Body api.PruneOutputs }) (*route.Reply[api.PrunedOutputs], error) {
		p, err := d.desk.Prune(ctx, in.Body)
		return &route.Reply[api.PrunedOutputs]{Body: p}, err
	})
}

func (d *desk) registerStreams() {
	const one = "/v1/runs/{run}"
	d.routes.Stream(huma.Operation{
		OperationID: "upload-input", Method: http.MethodPost, Path: "/v1/inputs", Tags: []string{"runs"},
		Summary: "Upload a file for runs",
		Description: "Runs of the same project name it by its id. It stays for a day, and after that for the runs that have named it; " +
			"then a prune removes it.",
		Parameters:  []*huma.Param{spec.Query("hash", "string", "sha256:HEX; when what comes is not that, nothing is kept")},
		RequestBody: &huma.RequestBody{Required: true, Content: spec.Binary("application/octet-stream")},
		Responses:   d.routes.AnswersJSON(http.StatusCreated, api.Input{}),
	}, route.Write.Long().Size(route.Unlimited), d.input)
	d.routes.Stream(huma.Operation{
		OperationID: "run-events", Method: http.MethodGet, Path: one + "/events", Tags: []string{"runs"},
		Summary: "What happens in a run (server-sent events of RunEvent)",
		Description: "Begins with what came after the event named, and ends with the event end. While a client reads, no output is dropped: " +
			"the command waits for it.",
		Parameters: append(spec.Path("run"), spec.Query("after", "integer", "Number of the last event seen; Last-Event-ID says the same"),
			spec.Header("Last-Event-ID", "Number of the last event seen")),
		Responses: spec.Answers(http.StatusOK, "Events", "text/event-stream"),
	}, route.Read.Long(), d.events)
	d.routes.Stream(huma.Operation{
		OperationID: "read-output", Method: http.MethodGet, Path: one + "/output", Tags: []string{"runs"},
		Summary:    "Read one deliverable that a run has published",
		Parameters: append(spec.Path("run"), spec.Query("path", "string", "As it is listed")),
		Responses:  spec.Answers(http.StatusOK, "Its bytes", "application/octet-stream"),
	}, route.Read.Long(), d.output)
}

type inWorkspace struct {
	Workspace string `path:"workspace" maxLength:"200" doc:"Its name"`
}

type inOutputs struct {
	Workspace string `path:"workspace" maxLength:"200" doc:"Its name"`
	Outputs   string `path:"outputs" maxLength:"80" doc:"Their id"`
}

func (d *desk) registerPublished() {
	const all, one = "/v1/workspaces/{workspace}/outputs", "/v1/workspaces/{workspace}/outputs/{outputs}"
	route.Call(d.routes, huma.Operation{
		OperationID: "list-published-outputs", Method: http.MethodGet, Path: all, Tags: []string{"runs"},
		Summary:     "List what the runs of a workspace have published besides it, newest first",
		Description: "Also of runs that are not known any more, and of other hosts with the same database and store; what prunes have removed is not in it.",
	}, route.Read.Long(), func(ctx context.Context, in *inWorkspace) (*route.Reply[api.OutputSetList], error) {
		v, err := d.desk.Published(ctx, route.Project(ctx), in.Workspace)
		return &route.Reply[api.OutputSetList]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-published-files", Method: http.MethodGet, Path: one, Tags: []string{"runs"},
		Summary: "List the deliverables of one of these, by path",
	}, route.Read.Long(), func(ctx context.Context, in *inOutputs) (*route.Reply[api.OutputList], error) {
		v, err := d.desk.PublishedFiles(ctx, route.Project(ctx), in.Workspace, in.Outputs)
		return &route.Reply[api.OutputList]{Body: v}, err
	})
	d.routes.Stream(huma.Operation{
		OperationID: "read-published-file", Method: http.MethodGet, Path: one + "/file", Tags: []string{"runs"},
		Summary:    "Read one deliverable of these",
		Parameters: append(spec.Path("workspace", "outputs"), spec.Query("path", "string", "As it is listed")),
		Responses:  spec.Answers(http.StatusOK, "Its bytes", "application/octet-stream"),
	}, route.Read.Long(), d.published)
}

// hash is what one looks like.
var hash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(sha256:[0-9a-f]{64})?$`) })

func (d *desk) input(w http.ResponseWriter, r *http.Request) error {
	want := r.URL.Query().Get("hash")
	if !hash().MatchString(want) {
		return api.Errorf(api.CodeInvalid, "hash: want sha256: and 64 lower-case hex digits")
	}
	in, err := d.desk.Input(r.Context(), route.Project(r.Context()), want, r.Body)
	if err != nil {
		return err
	}
	return route.WriteJSON(w, http.StatusCreated, in)
}

func (d *desk) events(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	after := q.Int64("after", 0)
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return api.Errorf(api.CodeInvalid, "Last-Event-ID: want a number")
		}
		after = n
	}
	if after < 0 {
		q.Bad("after", "want 0 or more")
	}
	if err := q.Err(); err != nil {
		return err
	}
	tape, err := d.desk.Follow(route.Project(r.Context()), r.PathValue("run"), uint64(after))
	if err != nil {
		return err
	}
	defer tape.Close()
	return route.Events(w, r, d.beat, func(ctx context.Context, out *stream.Events) error {
		for {
			e, more, err := tape.Next(ctx)
			if err != nil || !more {
				return err
			}
			if err := out.Send(e.Seq, string(e.Type), e); err != nil {
				return err
			}
		}
	})
}

func (d *desk) output(w http.ResponseWriter, r *http.Request) error {
	return send(w, r, func(ctx context.Context, project, path string) (api.OutputFile, io.ReadCloser, error) {
		return d.desk.Output(ctx, project, r.PathValue("run"), path)
	})
}

func (d *desk) published(w http.ResponseWriter, r *http.Request) error {
	return send(w, r, func(ctx context.Context, project, path string) (api.OutputFile, io.ReadCloser, error) {
		return d.desk.PublishedFile(ctx, project, r.PathValue("workspace"), r.PathValue("outputs"), path)
	})
}

// send sends one deliverable.
func send(w http.ResponseWriter, r *http.Request, open func(ctx context.Context, project, path string) (api.OutputFile, io.ReadCloser, error)) error {
	path := r.URL.Query().Get("path")
	if path == "" {
		return api.Errorf(api.CodeInvalid, "path: want that of an output")
	}
	f, body, err := open(r.Context(), route.Project(r.Context()), path)
	if err != nil {
		return err
	}
	defer body.Close()
	// No length is promised, so that a damaged file can end with a problem.
	out := stream.NewWriter(w, false, func(h http.Header) int {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", "attachment")
		h.Set("ETag", strconv.Quote(f.Hash))
		h.Set("Cache-Control", "no-store")
		return http.StatusOK
	})
	if err := out.Begin(); err != nil {
		return err
	}
	_, err = io.Copy(struct{ io.Writer }{out}, body)
	return err
}
