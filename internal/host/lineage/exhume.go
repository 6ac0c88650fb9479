package lineage

import (
	"context"
	"errors"

	"github.com/deskfork/deskfork/internal/host/store"
)

// Graves finds what is gone; store.Store does.
type Graves interface {
	Buried(ctx context.Context, project string, ids []string) ([]store.Desktop, error)
	BuriedSnapshot(ctx context.Context, id string) (store.Snapshot, error)
}

// Exhume adds the ancestors that are gone, generation by generation.
func Exhume(ctx context.Context, graves Graves, project string, parts *Parts) error {
	tried := map[string]bool{}
	for {
		desktops, snapshots := parts.Missing()
		var ids []string
		for _, id := range desktops {
			if !tried[id] {
				tried[id] = true
				ids = append(ids, id)
			}
		}
		buried, err := graves.Buried(ctx, project, ids)
		if err != nil {
			return err
		}
		parts.Desktops = append(parts.Desktops, buried...)
		found := len(buried) > 0
		for _, id := range snapshots {
			if tried[id] {
				continue
			}
			tried[id] = true
			snap, err := graves.BuriedSnapshot(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if snap.Project == project || snap.Project == "" {
				parts.Snapshots = append(parts.Snapshots, snap)
				found = true
			}
		}
		if !found {
			return nil
		}
	}
}
