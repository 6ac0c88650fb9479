package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/portable"
	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// export stores a snapshot, where there is a vault.
func (c *Checkpoints) export(ctx context.Context, t session.Tenure, snap api.Snapshot) (vault.Ref, error) {
	if c.Vault == nil {
		return vault.Ref{ID: snap.ID}, nil
	}
	e := vault.Entry{Scope: t.Scope, Generation: t.Generation, ID: snap.ID}
	ref, err := c.Vault.Write(ctx, e, func(ctx context.Context, w io.Writer) error {
		return c.Sandbox.cfg.Host.Snapshots.Export(ctx, snap.Project, snap.ID, w)
	})
	if err != nil {
		return ref, fault.From(err)
	}
	return ref, nil
}

// discard removes a snapshot that nobody will ask for.
func (c *Checkpoints) discard(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	return c.Sandbox.drop(ctx, c.Sandbox.cfg.Project, id)
}

func (s *Sandbox) drop(ctx context.Context, project, id string) error {
	if err := s.cfg.Host.Snapshots.Remove(ctx, project, id); err != nil && !missing(err) {
		return fmt.Errorf("remove snapshot %s: %w", id, err)
	}
	return nil
}

// find finds the snapshot of a runtime checkpoint: here, where it was made or came
// before, or else in the vault. fetched says that this call has brought it.
func (c *Checkpoints) find(ctx context.Context, s session.Scope, from session.RuntimeCheckpoint, img api.Image) (_ api.Snapshot, fetched bool, _ error) {
	ref := vault.ParseRef(from.CheckpointID)
	host, project := c.Sandbox.cfg.Host, c.Sandbox.cfg.Project
	name := c.prefix(s) + strconv.FormatInt(from.WorkGeneration, 10) + "-" + ref.ID
	for _, known := range []string{ref.ID, name} {
		snap, err := host.Snapshots.Get(ctx, project, known)
		switch {
		case missing(err):
			continue
		case err != nil:
			return snap, false, err
		case !strings.HasPrefix(snap.Name, c.prefix(s)):
			return snap, false, fmt.Errorf("snapshot %s is not this session's: %w", snap.ID, session.ErrForeign)
		case snap.Fault == "" || !ref.Portable() || c.Vault == nil:
			return snap, false, nil
		}
		if err := c.discard(ctx, snap.ID); err != nil { // its files are gone; the vault has them
			return snap, false, err
		}
	}
	switch {
	case !ref.Portable():
		e := api.Errorf(api.CodeNotFound, "it lay on the host alone that has made it, and is not here")
		e.Hint = "runtime checkpoints leave a host that has --blobs and --blob-key"
		return api.Snapshot{}, false, e
	case c.Vault == nil:
		e := api.Errorf(api.CodePrecondition, "it is in the blob store of the host that has made it")
		e.Hint = "start this host with the same --blobs and --blob-key"
		return api.Snapshot{}, false, e
	}
	snap, err := c.fetch(ctx, s, ref, name, img)
	return snap, err == nil, err
}

// fetch imports a snapshot from the vault. It is kept when all of it was compared
// with what was published; that it does not fit is found out before most of it
// comes.
func (c *Checkpoints) fetch(ctx context.Context, s session.Scope, ref vault.Ref, name string, img api.Image) (api.Snapshot, error) {
	stored, err := c.Vault.Open(ctx, s, ref)
	if err != nil {
		return api.Snapshot{}, err
	}
	r := &source{Reader: stored}
	snap, err := c.imported(ctx, r, ref, name, img)
	if r.err != nil { // which whoever read it may have taken for a bad stream
		err = r.err
	}
	if err != nil && snap.ID != "" {
		err = errors.Join(err, c.discard(ctx, snap.ID))
	}
	return snap, err
}

// imported imports what r reads. With an error it may give what is there all the same.
func (c *Checkpoints) imported(ctx context.Context, r io.Reader, ref vault.Ref, name string, img api.Image) (api.Snapshot, error) {
	var head bytes.Buffer
	was, err := portable.Read(io.TeeReader(r, &head))
	if err == nil {
		err = c.fits(ctx, ref.ID, was, img)
	}
	if err != nil {
		return api.Snapshot{}, err
	}
	snap, err := c.Sandbox.cfg.Host.Snapshots.Import(ctx, c.Sandbox.cfg.Project, name, io.MultiReader(&head, r))
	if err == nil {
		_, err = io.Copy(io.Discard, r) // behind what the import has read
	}
	return snap, err
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

// fits compares what a snapshot was sealed on with what is here. The rest of its
// host class the provider compares when it is cloned.
func (c *Checkpoints) fits(ctx context.Context, id string, was store.Snapshot, img api.Image) error {
	if was.ImageDigest != img.Digest {
		return otherImage(id, was.ImageDigest, img)
	}
	if shape := was.Sealed.Desktop.Shape; shape != c.Sandbox.shape() {
		return api.Errorf(api.CodeInvalid, "it has shape %s, and %s is asked for", shape, c.Sandbox.shape())
	}
	here, err := c.Sandbox.cfg.Host.Info(ctx)
	if err != nil {
		return err
	}
	if h := was.Sealed.Host; h.Provider != here.Provider || h.Version != here.ProviderVersion || string(h.Accelerator) != here.Accelerator {
		return fmt.Errorf("%w: it was sealed on %s %s with %s, this is %s %s with %s", vm.ErrHostClass,
			h.Provider, h.Version, h.Accelerator, here.Provider, here.ProviderVersion, here.Accelerator)
	}
	return nil
}

// explained says in the words of the API why a runtime checkpoint cannot be had, and
// what can be done.
func explained(from session.RuntimeCheckpoint, err error) error {
	e := *fault.From(err)
	e.Detail = "runtime checkpoint " + vault.ParseRef(from.CheckpointID).ID + ": " + e.Detail
	switch {
	case errors.Is(err, seal.ErrKey):
		e.Hint = "start this host with the --blob-key file of the host that has made it; if that is the one, the object's head is damaged"
	case errors.Is(err, workspace.ErrMissing), errors.Is(err, workspace.ErrCorrupt):
		e.Hint = "put the object back from a copy of the store, or go on: the next runtime checkpoint takes its place"
	case errors.Is(err, vm.ErrCorrupt):
		e.Hint = "go on: the next runtime checkpoint takes its place"
	case errors.Is(err, vm.ErrHostClass):
		e.Hint = "run on a host with that hypervisor and accelerator, or go on: the next runtime checkpoint takes its place"
	}
	return &refusal{cause: err, says: &e}
}

// refusal is a cause in the words of the API.
type refusal struct {
	cause error
	says  *api.Error
}

func (r *refusal) Error() string { return r.says.Error() }

// Unwrap gives both.
func (r *refusal) Unwrap() []error { return []error{r.says, r.cause} }
