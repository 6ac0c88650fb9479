package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/deskfork/deskfork/internal/host/parcel"
)

const (
	// writeLimit is how long a checkpoint may take; it is less than grace, so that
	// nothing is removed that somebody still writes.
	writeLimit = 12 * time.Hour
	// clearLimit is how long the removal of what was written in vain may take; what
	// is left then goes by its mark.
	clearLimit = 20 * time.Second
)

// Write stores what export writes. When it fails nothing can be read, and what is
// left of it goes with a sweep.
func (v *Vault) Write(ctx context.Context, e Entry, export func(ctx context.Context, w io.Writer) error) (Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	err := v.begin(ctx, e)
	if err != nil {
		return Ref{}, fmt.Errorf("store runtime checkpoint %s: %w", e.ID, err)
	}
	ref, err := v.write(ctx, e, export)
	if err == nil {
		return ref, nil
	}
	err = fmt.Errorf("store runtime checkpoint %s: %w", e.ID, err)
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearLimit)
	defer cancel()
	if cerr := v.clear(cctx, e.ID); cerr != nil {
		err = errors.Join(err, fmt.Errorf("remove what was stored of it: %w", cerr))
	}
	return Ref{}, err
}

// begin writes the mark.
func (v *Vault) begin(ctx context.Context, e Entry) error {
	if err := e.Scope.Validate(); err != nil {
		return err
	}
	if !idRE().MatchString(e.ID) || e.Generation < 1 {
		return fmt.Errorf("id %.80q of generation %d cannot be stored", e.ID, e.Generation)
	}
	text, err := json.Marshal(e)
	if err == nil {
		err = v.store().Put(ctx, v.markKey(e), text)
	}
	return err
}

func (v *Vault) write(ctx context.Context, e Entry, export func(ctx context.Context, w io.Writer) error) (Ref, error) {
	parts, err := v.store().Write(ctx, partsOf(e.ID), export)
	if err != nil {
		return Ref{}, err
	}
	text, err := json.Marshal(manifest{Version: version, Entry: e, Parts: parts})
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it has %d parts: too many", len(parts))
	}
	if err == nil {
		err = v.store().Put(ctx, manifestKey(e.ID), text)
	}
	return Ref{ID: e.ID, Sum: parcel.Hash(text)}, err
}
