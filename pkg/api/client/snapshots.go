package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Snapshots lists, removes, exports and imports snapshots. Desktop.Snapshot
// makes one.
type Snapshots struct{ c *Client }

// List lists the project's snapshots, newest first.
func (s *Snapshots) List(ctx context.Context) ([]api.Snapshot, error) {
	list, err := wire.Fetch[api.SnapshotList](ctx, s.c.server, wire.Call{Path: "/v1/snapshots"})
	return list.Snapshots, err
}

// Get describes a snapshot by name or id.
func (s *Snapshots) Get(ctx context.Context, ref string) (api.Snapshot, error) {
	return wire.Fetch[api.Snapshot](ctx, s.c.server, wire.Call{Path: snapshotPath(ref)})
}

// Remove removes a snapshot. Desktops that stand on it keep what they need.
func (s *Snapshots) Remove(ctx context.Context, ref string) error {
	return s.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: snapshotPath(ref)})
}

// Export writes a snapshot with all that it stands on, except its image, as one
// zstd stream. An error says that what was written is not whole.
func (s *Snapshots) Export(ctx context.Context, ref string, w io.Writer) error {
	resp, err := s.c.server.Open(ctx, wire.Call{Path: snapshotPath(ref) + "/export"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	from := &reading{r: resp.Body}
	if _, err := io.Copy(w, from); err != nil {
		if from.err != nil {
			return s.c.server.Fault(ctx, fmt.Errorf("export %s: %w", ref, err))
		}
		return fmt.Errorf("write export of %s: %w", ref, err)
	}
	return nil
}

// Import reads what Export wrote, here or on another host, and keeps it under a
// name. The host needs the snapshot's image, and a hypervisor and CPU of the
// same class. It is verified before it is listed.
func (s *Snapshots) Import(ctx context.Context, name string, r io.Reader) (api.Snapshot, error) {
	return wire.Fetch[api.Snapshot](ctx, s.c.server, wire.Call{
		Method: http.MethodPost, Path: "/v1/snapshots/import", Query: url.Values{"name": {name}},
		Header: http.Header{"Content-Type": {api.SnapshotMIME}}, Body: r,
	})
}

// Store keeps a snapshot in the host's blob store under a name, with all that it
// stands on, except its image. The store has to encrypt.
func (s *Snapshots) Store(ctx context.Context, ref, name string) (api.SnapshotExport, error) {
	return wire.Fetch[api.SnapshotExport](ctx, s.c.server, wire.Call{
		Method: http.MethodPost, Path: snapshotPath(ref) + "/exports", JSON: api.ExportSnapshot{Name: name},
	})
}

// Stored lists the project's snapshots in the blob store, by name.
func (s *Snapshots) Stored(ctx context.Context) ([]api.SnapshotExport, error) {
	list, err := wire.Fetch[api.SnapshotExportList](ctx, s.c.server, wire.Call{Path: "/v1/snapshot-exports"})
	return list.Exports, err
}

// Fetch keeps what Store has put into the blob store, from this host or another one,
// as a snapshot under a name. The host needs what Import needs.
func (s *Snapshots) Fetch(ctx context.Context, export, name string) (api.Snapshot, error) {
	return wire.Fetch[api.Snapshot](ctx, s.c.server, wire.Call{
		Method: http.MethodPost, Path: storedPath(export) + "/import", JSON: api.ImportSnapshot{Name: name},
	})
}

// RemoveStored removes a snapshot from the blob store.
func (s *Snapshots) RemoveStored(ctx context.Context, export string) error {
	return s.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: storedPath(export)})
}

func storedPath(name string) string { return "/v1/snapshot-exports/" + wire.Seg(name) }

func snapshotPath(ref string) string { return "/v1/snapshots/" + wire.Seg(ref) }

// reading keeps the error of a reader apart from that of a writer.
type reading struct {
	r   io.Reader
	err error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
