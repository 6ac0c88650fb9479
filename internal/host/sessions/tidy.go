package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/vault"
)

const (
	// tidyPause is the pause between two looks for runtime checkpoints that are
	// nobody's.
	tidyPause = time.Hour
	// sealGrace is the least age of a snapshot that goes because nothing names it:
	// longer than a run that makes one takes to publish it.
	sealGrace = 24 * time.Hour
)

// tidies removes runtime checkpoints that are nobody's, at once and from time to
// time, until ctx ends.
func (d *Desk) tidies(ctx context.Context) {
	t := time.NewTicker(cmp.Or(d.cfg.Tidy, tidyPause))
	defer t.Stop()
	for {
		if err := d.tidy(ctx); err != nil && ctx.Err() == nil {
			d.cfg.Logger.Warn("runtime checkpoints that are nobody's stay for now", "err", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (d *Desk) tidy(ctx context.Context) error {
	var here, there error
	if d.cfg.Suspends {
		here = d.tidyHere(ctx)
	}
	if d.vault != nil {
		var done vault.Report
		done, there = d.vault.Tidy(ctx, vault.Pointers{All: d.cfg.Publications, Of: d.cfg.Stores.Fences.Published})
		if done.Removed > 0 {
			d.cfg.Logger.Info("runtime checkpoints that were nobody's removed from the store", "count", done.Removed)
		}
		if done.Unknown > 0 {
			d.cfg.Logger.Warn("runtime checkpoints of unknown sessions are in the store; does each deployment have a prefix of its own?", "count", done.Unknown)
		}
	}
	return errors.Join(here, there)
}

// tidyHere removes snapshots of this host whose sessions have gone on without them.
func (d *Desk) tidyHere(ctx context.Context) error {
	all, err := d.cfg.Publications(ctx)
	if err == nil {
		err = d.machine.Tidy(ctx, vault.Named(all), d.cfg.Now().Add(-sealGrace))
	}
	if err != nil {
		return fmt.Errorf("tidy runtime checkpoints of this host: %w", err)
	}
	return nil
}
