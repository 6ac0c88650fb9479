package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Runs runs commands in workspaces, each in a machine of its own.
type Runs struct{ c *Client }

// Start begins a run and answers at once: Events tell the rest.
func (r *Runs) Start(ctx context.Context, req api.StartRun) (api.Run, error) {
	return wire.Fetch[api.Run](ctx, r.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/runs", JSON: req, Keyed: true})
}

// Upload uploads a file that runs of the token's project can have as an input. Size
// is that of the content when it is known, else 0. What did not arrive as it was sent
// is refused.
func (r *Runs) Upload(ctx context.Context, content io.Reader, size int64) (api.Input, error) {
	sum := sha256.New()
	in, err := wire.Fetch[api.Input](ctx, r.c.server, wire.Call{
		Method: http.MethodPost, Path: "/v1/inputs", Header: http.Header{"Content-Type": {"application/octet-stream"}},
		Body: io.TeeReader(content, sum), Size: size,
	})
	if sent := "sha256:" + hex.EncodeToString(sum.Sum(nil)); err == nil && in.Hash != sent {
		return in, api.Errorf(api.CodeInternal, "input %s is %s, and %s was sent", in.ID, in.Hash, sent)
	}
	return in, err
}

// List lists the runs that are known, newest first.
func (r *Runs) List(ctx context.Context) ([]api.Run, error) {
	list, err := wire.Fetch[api.RunList](ctx, r.c.server, wire.Call{Path: "/v1/runs"})
	return list.Runs, err
}

// Get describes a run.
func (r *Runs) Get(ctx context.Context, id string) (api.Run, error) {
	return wire.Fetch[api.Run](ctx, r.c.server, wire.Call{Path: runPath(id)})
}

// Cancel asks a run to end. Its events tell when it has.
func (r *Runs) Cancel(ctx context.Context, id string) (api.Run, error) {
	return wire.Fetch[api.Run](ctx, r.c.server, wire.Call{Method: http.MethodPost, Path: runPath(id) + "/cancel", Same: true})
}

// Events yields what a run tells, from its beginning to its end, of which
// api.RunEnd is the last. Links and errors are as for Client.Events.
func (r *Runs) Events(ctx context.Context, id string) iter.Seq2[api.RunEvent, error] {
	all := follow(ctx, r.c, &told[api.RunEvent]{path: runPath(id) + "/events", query: url.Values{}, seq: func(e api.RunEvent) uint64 { return e.Seq }})
	return func(yield func(api.RunEvent, error) bool) {
		for e, err := range all {
			if !yield(e, err) || e.Type == api.RunEnd {
				return
			}
		}
	}
}

// Outputs lists the deliverables that a run has published, by path.
func (r *Runs) Outputs(ctx context.Context, id string) ([]api.OutputFile, error) {
	list, err := wire.Fetch[api.OutputList](ctx, r.c.server, wire.Call{Path: runPath(id) + "/outputs"})
	return list.Files, err
}

// Output writes one deliverable to w. An error says that what was written is not
// whole.
func (r *Runs) Output(ctx context.Context, id, path string, w io.Writer) error {
	return r.c.output(ctx, runPath(id)+"/output", path, w)
}

// Published lists what the runs of a workspace have published and prunes have left,
// newest first, whether the runs are still known or not.
func (r *Runs) Published(ctx context.Context, workspace string) ([]api.OutputSet, error) {
	list, err := wire.Fetch[api.OutputSetList](ctx, r.c.server, wire.Call{Path: publishedPath(workspace, "")})
	return list.Sets, err
}

// PublishedFiles lists the deliverables of one of them, by path.
func (r *Runs) PublishedFiles(ctx context.Context, workspace, id string) ([]api.OutputFile, error) {
	list, err := wire.Fetch[api.OutputList](ctx, r.c.server, wire.Call{Path: publishedPath(workspace, id)})
	return list.Files, err
}

// PublishedFile writes one of these to w, as Output does.
func (r *Runs) PublishedFile(ctx context.Context, workspace, id, path string, w io.Writer) error {
	return r.c.output(ctx, publishedPath(workspace, id)+"/file", path, w)
}

func publishedPath(workspace, id string) string {
	p := "/v1/workspaces/" + wire.Seg(workspace) + "/outputs"
	if id != "" {
		p += "/" + wire.Seg(id)
	}
	return p
}

func (c *Client) output(ctx context.Context, route, path string, w io.Writer) error {
	resp, err := c.server.Open(ctx, wire.Call{Path: route, Query: url.Values{"path": {path}}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := &reading{r: resp.Body}
	if _, err := io.Copy(w, from); err != nil {
		if from.err != nil {
			return c.server.Fault(ctx, fmt.Errorf("read output %s: %w", path, err))
		}
		return fmt.Errorf("write output %s: %w", path, err)
	}
	return nil
}

// Prune removes outputs of all projects, and inputs; it needs the scope admin.
func (r *Runs) Prune(ctx context.Context, req api.PruneOutputs) (api.PrunedOutputs, error) {
	return wire.Fetch[api.PrunedOutputs](ctx, r.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/prune-outputs", JSON: req, Same: true})
}

func runPath(id string) string { return "/v1/runs/" + wire.Seg(id) }
