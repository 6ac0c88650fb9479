package host

import (
	"context"

	"github.com/deskfork/deskfork/internal/host/lineage"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Tree draws where the desktops of a project came from, and what each takes. What
// is gone is in it while something that came from it is not, or needs a part of it.
func (h *Host) Tree(ctx context.Context, project string) (api.Tree, error) {
	if err := h.whenReady(); err != nil {
		return api.Tree{}, err
	}
	rows, err := h.store.Snapshots(ctx)
	if err != nil {
		return api.Tree{}, err
	}
	parts := lineage.Parts{}
	sizes := map[string]int64{} // of templates
	for _, row := range rows {
		sizes[row.ID] = row.MemoryBytes
		if row.Project == project || row.Kind == store.KindBoot {
			parts.Snapshots = append(parts.Snapshots, row)
		}
	}
	use := map[string]lineage.Use{}
	for _, d := range h.all() {
		if d.Project != project {
			continue
		}
		parts.Desktops = append(parts.Desktops, d.Row())
		v := measure(d)
		u := lineage.Use{MemoryPrivate: v.MemoryPrivate, DiskPrivate: v.DiskPrivate}
		if _, m, _ := d.Parts(); m != nil {
			info := m.Info()
			u.MemoryShared = sizes[string(info.Template)]
			u.On = []vm.SnapshotID{info.Snapshot, info.Template}
		}
		use[d.ID] = u
	}
	parts.Use = func(id string) lineage.Use { return use[id] }
	if parts.Images, err = h.Shelf.List(ctx); err != nil {
		return api.Tree{}, err
	}
	if k, ok := h.cfg.Provider.(vm.Keeper); ok {
		if parts.Kept, err = k.Kept(ctx); err != nil {
			return api.Tree{}, err
		}
	}
	if err := lineage.Exhume(ctx, h.store, project, &parts); err != nil {
		return api.Tree{}, err
	}
	return lineage.Tree(parts), nil
}
