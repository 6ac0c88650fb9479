package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/pkg/session"
)

// Open reads a session's checkpoint. Bytes come when their part was compared with
// its hash, and not before; the first that is missing or not what was written is a
// *workspace.DamageError. The reader needs no end.
func (v *Vault) Open(ctx context.Context, s session.Scope, ref Ref) (io.Reader, error) {
	if !idRE.MatchString(ref.ID) || !sumRE.MatchString(ref.Sum) {
		return nil, fmt.Errorf("reference %.200q is none of a stored runtime checkpoint", ref)
	}
	key := manifestKey(ref.ID)
	text, err := v.get(ctx, key, maxManifest)
	if err != nil {
		return nil, err
	}
	var m manifest
	if hash(text) != ref.Sum || json.Unmarshal(text, &m) != nil || m.Version != version {
		return nil, damaged(key, "it is not what was published")
	}
	if m.Entry.Scope.Key() != s.Key() || m.Entry.ID != ref.ID {
		return nil, fmt.Errorf("runtime checkpoint %s: %w", ref.ID, session.ErrForeign)
	}
	return &reader{ctx: ctx, vault: v, id: ref.ID, parts: m.Parts}, nil
}

// reader gives the parts one after the other. It is for one goroutine.
type reader struct {
	ctx   context.Context //nolint:containedctx // io.Reader has no room for it
	vault *Vault
	id    string
	parts []part // of all of it

	next int
	buf  []byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.next == len(r.parts) {
			return 0, io.EOF
		}
		key, want := partKey(r.id, r.next), r.parts[r.next]
		b, err := r.vault.get(r.ctx, key, want.Size)
		if err != nil {
			return 0, err
		}
		if len(b) != want.Size || hash(b) != want.Sum {
			return 0, damaged(key, "it is not what was written")
		}
		r.buf = b
		r.next++
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}
