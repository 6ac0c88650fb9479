// Package depot keeps exported snapshots in the blob store, under names of their
// project, for other hosts or for when this one is gone. An export is there when
// its manifest is, and the manifest knows every part by its hash. It holds memory,
// so the store has to encrypt.
package depot

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"time"

	"github.com/deskfork/deskfork/internal/host/parcel"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Where things lie in the store: below root and the project's name there.
const (
	root   = "snapshots/"
	names  = "/names/" // + name: the manifest
	pieces = "/parts/" // + id/number
)

const (
	maxManifest = 16 << 20 // bytes
	version     = 1
	// writeLimit is how long an export may take; it is less than grace, so that
	// nothing is removed that somebody still writes.
	writeLimit = 12 * time.Hour
	// grace is the least age of parts without a manifest that are removed: longer
	// than an export takes, and than all clocks are wrong.
	grace = 24 * time.Hour
	// clearLimit is how long the removal of what was written in vain may take.
	clearLimit = 20 * time.Second
)

// Snapshots are the host's. *host.Snapshots does.
type Snapshots interface {
	Get(ctx context.Context, project, ref string) (api.Snapshot, error)
	Export(ctx context.Context, project, ref string, w io.Writer) error
	Import(ctx context.Context, project, name string, r io.Reader) (api.Snapshot, error)
	Remove(ctx context.Context, project, ref string) error
}

// Desk is the use cases. All members are required. Safe for concurrent use, also by
// several hosts.
type Desk struct {
	Snapshots Snapshots
	Objects   workspace.Objects
	Key       []byte // the store's secret; empty: it does not encrypt, and takes no exports
	Now       func() time.Time
	Logger    *slog.Logger

	partSize int // of tests
}

// manifest is an export.
type manifest struct {
	Version int                `json:"version"`
	Project string             `json:"project"`
	ID      string             `json:"id"` // of the parts
	Export  api.SnapshotExport `json:"export"`
	Parts   []parcel.Part      `json:"parts"`
}

func (d *Desk) store() parcel.Store { return parcel.Store{Objects: d.Objects, Size: d.partSize} }

// of is where a project's exports lie: without the key nobody can tell which
// project that is.
func (d *Desk) of(project string) string {
	h := hmac.New(sha256.New, d.Key)
	h.Write([]byte("snapshots of " + project))
	return root + hex.EncodeToString(h.Sum(nil)[:16])
}

// ready refuses a store that does not encrypt.
func (d *Desk) ready() error {
	if len(d.Key) > 0 {
		return nil
	}
	e := api.Errorf(api.CodePrecondition, "a snapshot holds memory, and the blob store does not encrypt")
	e.Hint = "start the host with --blob-key, or export to a file"
	return e
}

func taken(name string) error {
	e := api.Errorf(api.CodeConflict, "the blob store has an export %s", name)
	e.Hint = "choose another name, or remove it"
	return e
}

// Export stores a snapshot under a name that no export of the project has. When it
// fails there is none.
func (d *Desk) Export(ctx context.Context, project, ref, name string) (api.SnapshotExport, error) {
	if err := d.ready(); err != nil {
		return api.SnapshotExport{}, err
	}
	snap, err := d.Snapshots.Get(ctx, project, ref)
	if err != nil {
		return api.SnapshotExport{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	if _, err := d.Objects.Stat(ctx, d.of(project)+names+name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = taken(name)
		}
		return api.SnapshotExport{}, err
	}
	m := manifest{Version: version, Project: project, ID: token.NewID('x'), Export: api.SnapshotExport{
		Name: name, Snapshot: snap.Name, ImageDigest: snap.ImageDigest, Shape: snap.Shape,
		Hypervisor: snap.Hypervisor, Accelerator: snap.Accelerator, Digest: snap.Digest, Created: d.Now().UTC(),
	}}
	if err := d.write(ctx, &m, snap.ID); err != nil {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearLimit)
		defer cancel()
		return api.SnapshotExport{}, errors.Join(err, d.store().Clear(cctx, d.parts(project, m.ID)))
	}
	if err := d.sweep(ctx, project); err != nil { // the next one tries again
		d.Logger.Warn("parts of exports that nobody finished are not removed", "err", err)
	}
	return m.Export, nil
}

func (d *Desk) parts(project, id string) string { return d.of(project) + pieces + id + "/" }

func (d *Desk) write(ctx context.Context, m *manifest, snapshot string) (err error) {
	m.Parts, err = d.store().Write(ctx, d.parts(m.Project, m.ID), func(ctx context.Context, w io.Writer) error {
		return d.Snapshots.Export(ctx, m.Project, snapshot, w)
	})
	if err != nil {
		return fmt.Errorf("store export %s: %w", m.Export.Name, err)
	}
	for _, p := range m.Parts {
		m.Export.Bytes += int64(p.Size)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(text) > maxManifest {
		return fmt.Errorf("store export %s: it has %d parts: too many", m.Export.Name, len(m.Parts))
	}
	key := d.of(m.Project) + names + m.Export.Name
	err = d.Objects.Put(ctx, key, bytes.NewReader(text), int64(len(text)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("store export %s: %w", m.Export.Name, err)
	}
	// Somebody else may have been first, also where both were told that they were.
	there, err := d.store().Get(ctx, key, maxManifest)
	if err == nil && !bytes.Equal(there, text) {
		err = taken(m.Export.Name)
	}
	return err
}

// load reads a manifest.
func (d *Desk) load(ctx context.Context, project, name string) (m manifest, err error) {
	key := d.of(project) + names + name
	text, err := d.store().Get(ctx, key, maxManifest)
	if err != nil {
		return m, err
	}
	if json.Unmarshal(text, &m) != nil || m.Version != version || m.Project != project || m.Export.Name != name || m.ID == "" {
		return m, parcel.Damaged(key, "it is not what was written")
	}
	return m, nil
}

// find is load for who asks for it by name.
func (d *Desk) find(ctx context.Context, project, name string) (m manifest, err error) {
	if err := d.ready(); err != nil {
		return m, err
	}
	m, err = d.load(ctx, project, name)
	if errors.Is(err, workspace.ErrMissing) {
		return m, api.Errorf(api.CodeNotFound, "the blob store has no export %s", name)
	}
	return m, err
}

// List lists a project's exports by name. One whose manifest cannot be read says
// why.
func (d *Desk) List(ctx context.Context, project string) ([]api.SnapshotExport, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	list := []api.SnapshotExport{}
	err := workspace.All(ctx, d.Objects, d.of(project)+names, func(o workspace.Info) error {
		name := path.Base(o.Key)
		m, err := d.load(ctx, project, name)
		switch {
		case errors.Is(err, workspace.ErrMissing): // removed meanwhile
			return nil
		case err != nil && ctx.Err() == nil:
			m.Export = api.SnapshotExport{Name: name, Fault: err.Error()}
		case err != nil:
			return err
		}
		list = append(list, m.Export)
		return nil
	})
	return list, err
}

// Import keeps an export as a snapshot under a name, when every part of it is what
// was written.
func (d *Desk) Import(ctx context.Context, project, export, name string) (api.Snapshot, error) {
	m, err := d.find(ctx, project, export)
	if err != nil {
		return api.Snapshot{}, err
	}
	r := &source{Reader: d.store().Open(ctx, d.parts(project, m.ID), m.Parts)}
	snap, err := d.Snapshots.Import(ctx, project, name, r)
	if err == nil {
		if _, err = io.Copy(io.Discard, r); err != nil { // behind what the import has read
			err = errors.Join(err, d.Snapshots.Remove(context.WithoutCancel(ctx), project, snap.ID))
		}
	}
	if r.err != nil { // which whoever read it may have taken for a bad stream
		err = r.err
	}
	if err != nil {
		return api.Snapshot{}, fmt.Errorf("import export %s: %w", export, err)
	}
	return snap, nil
}

// source remembers why it failed.
type source struct {
	io.Reader

	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Remove removes an export, a damaged one too. Snapshots that were imported from it
// stay.
func (d *Desk) Remove(ctx context.Context, project, name string) error {
	m, err := d.find(ctx, project, name)
	damaged := errors.Is(err, workspace.ErrCorrupt)
	if err != nil && !damaged {
		return err
	}
	if err := d.Objects.Delete(ctx, d.of(project)+names+name); err != nil {
		return err
	}
	if m.ID == "" || damaged { // its parts go when they are old
		return nil
	}
	return d.store().Clear(ctx, d.parts(project, m.ID))
}

// sweep removes old parts that no manifest names: of exports that were not finished,
// or were removed while they were damaged.
func (d *Desk) sweep(ctx context.Context, project string) error {
	old := map[string]bool{} // by id; false: some part is young
	err := workspace.All(ctx, d.Objects, d.of(project)+pieces, func(o workspace.Info) error {
		id := path.Base(path.Dir(o.Key))
		all, seen := old[id]
		old[id] = (all || !seen) && d.Now().Sub(o.Modified) > grace
		return nil
	})
	if err != nil || len(old) == 0 {
		return err
	}
	err = workspace.All(ctx, d.Objects, d.of(project)+names, func(o workspace.Info) error {
		m, err := d.load(ctx, project, path.Base(o.Key))
		delete(old, m.ID)
		return err // one that cannot be read may name any
	})
	for id, all := range old {
		if err == nil && all {
			err = d.store().Clear(ctx, d.parts(project, id))
		}
	}
	return err
}
