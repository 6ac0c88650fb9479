package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Recordings are what was recorded of a desktop.
type Recordings struct{ d *handle }

// Recordings records the desktop.
func (d *handle) Recordings() *Recordings { return &Recordings{d} }

// Start begins to record; the first picture is written when it returns.
func (r *Recordings) Start(ctx context.Context) (api.Recording, error) {
	return wire.Fetch[api.Recording](ctx, r.d.c.server, wire.Call{Method: http.MethodPost, Path: r.d.path("/recordings")})
}

// Stop ends the recording; its file is finished when it returns.
func (r *Recordings) Stop(ctx context.Context) (api.Recording, error) {
	return wire.Fetch[api.Recording](ctx, r.d.c.server, wire.Call{Method: http.MethodPost, Path: r.d.path("/recordings/stop")})
}

// List lists recordings, newest first. Those of a desktop that is deleted are found by
// its id.
func (r *Recordings) List(ctx context.Context) ([]api.Recording, error) {
	list, err := wire.Fetch[api.RecordingList](ctx, r.d.c.server, wire.Call{Path: r.d.path("/recordings")})
	return list.Recordings, err
}

// Read writes the file of a recording, as far as it has come, and answers its size. An
// error says that what was written is not whole.
func (r *Recordings) Read(ctx context.Context, id string, to io.Writer) (int64, error) {
	resp, err := r.d.c.server.Open(ctx, wire.Call{Path: r.d.path("/recordings/" + wire.Seg(id))})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	from := &reading{r: resp.Body}
	n, err := io.Copy(to, from)
	if err != nil && from.err != nil {
		return n, r.d.c.broke(ctx, "read recording "+id, err)
	}
	if err != nil {
		return n, fmt.Errorf("write recording %s: %w", id, err)
	}
	return n, nil
}

// Delete deletes a recording that has ended.
func (r *Recordings) Delete(ctx context.Context, id string) error {
	return r.d.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: r.d.path("/recordings/" + wire.Seg(id))})
}
