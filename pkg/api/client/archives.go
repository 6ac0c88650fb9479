package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/fault"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Export writes the files of a checkpoint, W or W@CHECKPOINT, as tar; image is of
// the desktop that reads them. An error says that what was written is not whole.
func (w *Workspaces) Export(ctx context.Context, ref, image string, to io.Writer) error {
	resp, err := w.c.server.Open(ctx, wire.Call{Path: archivePath(ref), Query: url.Values{"image": {image}}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := &reading{r: resp.Body}
	if _, err := io.Copy(to, from); err != nil {
		if from.err != nil {
			return w.c.broke(ctx, "export "+ref, err)
		}
		return fmt.Errorf("write export of %s: %w", ref, err)
	}
	return nil
}

// Import publishes the files of a tar in a workspace, which is made at need.
func (w *Workspaces) Import(ctx context.Context, name string, req api.ImportWorkspace, tar io.Reader) (api.Checkpoint, error) {
	q := url.Values{"image": {req.Image}}
	if req.SizeMiB != 0 {
		q.Set("size_mib", strconv.FormatInt(req.SizeMiB, 10))
	}
	if req.Replace {
		q.Set("replace", "true")
	}
	return wire.Fetch[api.Checkpoint](ctx, w.c.server, wire.Call{
		Method: http.MethodPut, Path: archivePath(name), Query: q, Header: http.Header{"Content-Type": {api.TarMIME}}, Body: tar,
	})
}

// Diff yields the files that are not the same in two checkpoints, each W or
// W@CHECKPOINT, sorted by path; image is of the desktops that read them. An error
// ends it, and says that there may be more.
func (w *Workspaces) Diff(ctx context.Context, before, after, image string) iter.Seq2[api.FileDifference, error] {
	return func(yield func(api.FileDifference, error) bool) {
		k := wire.Call{Path: "/v1/workspaces/" + wire.Seg(before) + "/diff", Query: url.Values{"to": {after}, "image": {image}}}
		resp, err := w.c.server.Open(ctx, k)
		if err != nil {
			yield(api.FileDifference{}, err)
			return
		}
		defer resp.Body.Close()
		lines := json.NewDecoder(resp.Body)
		for {
			var one api.FileDifference
			err := lines.Decode(&one)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(one, w.c.broke(ctx, "compare "+before+" with "+after, err))
				return
			}
			if !yield(one, nil) {
				return
			}
		}
	}
}

// broke is the error of an answer that ended before it was whole: what the server
// says of it, or what became of the way there.
func (c *Client) broke(ctx context.Context, what string, err error) error {
	if problem, ok := fault.As(err); ok {
		return problem
	}
	return c.server.Fault(ctx, fmt.Errorf("%s: %w", what, err))
}

func archivePath(ref string) string { return "/v1/workspaces/" + wire.Seg(ref) + "/archive" }
