package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/internal/host/parcel"
	"github.com/deskfork/deskfork/pkg/session"
)

// Open reads a session's checkpoint. Bytes come when their part was compared with
// its hash, and not before; the first that is missing or not what was written is a
// *workspace.DamageError. The reader needs no end.
func (v *Vault) Open(ctx context.Context, s session.Scope, ref Ref) (io.Reader, error) {
	if !idRE().MatchString(ref.ID) || !sumRE().MatchString(ref.Sum) {
		return nil, fmt.Errorf("reference %.200q is none of a stored runtime checkpoint", ref)
	}
	key := manifestKey(ref.ID)
	text, err := v.store().Get(ctx, key, maxManifest)
	if err != nil {
		return nil, err
	}
	var m manifest
	if parcel.Hash(text) != ref.Sum || json.Unmarshal(text, &m) != nil || m.Version != version {
		return nil, parcel.Damaged(key, "it is not what was published")
	}
	if m.Entry.Scope.Key() != s.Key() || m.Entry.ID != ref.ID {
		return nil, fmt.Errorf("runtime checkpoint %s: %w", ref.ID, session.ErrForeign)
	}
	return v.store().Open(ctx, partsOf(ref.ID), m.Parts), nil
}
