package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// ahead is how many parts are on their way at once.
	ahead = 3
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
	if !idRE.MatchString(e.ID) || e.Generation < 1 {
		return fmt.Errorf("id %.80q of generation %d cannot be stored", e.ID, e.Generation)
	}
	text, err := json.Marshal(e)
	if err == nil {
		err = v.put(ctx, v.markKey(e), text)
	}
	return err
}

func (v *Vault) write(ctx context.Context, e Entry, export func(ctx context.Context, w io.Writer) error) (Ref, error) {
	parts, err := v.parts(ctx, e.ID, export)
	if err != nil {
		return Ref{}, err
	}
	text, err := json.Marshal(manifest{Version: version, Entry: e, Parts: parts})
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it has %d parts: too many", len(parts))
	}
	if err == nil {
		err = v.put(ctx, manifestKey(e.ID), text)
	}
	return Ref{ID: e.ID, Sum: hash(text)}, err
}

// parts stores a stream in parts.
func (v *Vault) parts(ctx context.Context, id string, export func(ctx context.Context, w io.Writer) error) ([]part, error) {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(ahead)
	size := partSize
	if v.partSize > 0 {
		size = v.partSize
	}
	c := &cutter{ctx: ctx, vault: v, id: id, size: size, work: work}
	err := export(ctx, c)
	if err == nil {
		err = c.cut()
	}
	if werr := work.Wait(); werr != nil { // the cause of whatever export said
		err = werr
	}
	if err == nil && len(c.parts) == 0 {
		err = errors.New("nothing was exported")
	}
	return c.parts, err
}

// cutter cuts a stream. It is for one goroutine.
type cutter struct {
	ctx   context.Context //nolint:containedctx // io.Writer has no room for it
	vault *Vault
	id    string
	size  int
	work  *errgroup.Group

	buf   []byte
	parts []part
}

// Write implements io.Writer.
func (c *cutter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), c.size-len(c.buf))
		c.buf, rest = append(c.buf, rest[:n]...), rest[n:]
		if len(c.buf) < c.size {
			break
		}
		if err := c.cut(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// cut sends what has come as a part, and waits while too many are on their way.
func (c *cutter) cut() error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	if len(c.buf) == 0 {
		return nil
	}
	body, key := c.buf, partKey(c.id, len(c.parts))
	c.buf, c.parts = nil, append(c.parts, part{Size: len(body), Sum: hash(body)})
	c.work.Go(func() error { return c.vault.put(c.ctx, key, body) })
	return nil
}
