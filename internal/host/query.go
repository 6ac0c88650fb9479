package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/request"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// find returns a desktop that exists, by id or name.
func (h *Host) find(project, ref string) (*desk.Desktop, error) {
	h.mu.Lock()
	d := h.desktops[ref]
	h.mu.Unlock()
	if d != nil && d.Project == project {
		return d, nil
	}
	for _, d := range h.all() {
		if d.Project == project && d.View().Name == ref {
			return d, nil
		}
	}
	return nil, fault.NotFound("desktop", ref)
}

// Desktop describes one desktop by id or name. What was deleted is not found.
func (h *Host) Desktop(ctx context.Context, project, ref string) (api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return api.Desktop{}, err
	}
	d, err := h.find(project, ref)
	if err == nil {
		return h.describe(d), nil
	}
	row, dbErr := h.store.Desktop(ctx, project, ref)
	if dbErr == nil && !row.Deleted.IsZero() {
		e := fault.NotFound("desktop", ref)
		e.Hint = "it was deleted at " + row.Deleted.Format("2006-01-02 15:04:05 MST")
		return api.Desktop{}, e
	}
	if dbErr != nil && !errors.Is(dbErr, store.ErrNotFound) {
		return api.Desktop{}, dbErr
	}
	return api.Desktop{}, err
}

// ListFilter narrows a list.
type ListFilter = request.Filter

// Desktops lists the desktops of a project, "" for all, with what they take, newest
// first.
func (h *Host) Desktops(_ context.Context, project string, f ListFilter) ([]api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return nil, err
	}
	list := []api.Desktop{}
	for _, d := range h.all() {
		if (project == "" || d.Project == project) && f.Match(d.View()) {
			list = append(list, h.describe(d))
		}
	}
	slices.SortFunc(list, func(a, b api.Desktop) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// Wait returns when a stage is reached. The error is the failure of the stage,
// or says where the desktop stands when ctx ended.
func (h *Host) Wait(ctx context.Context, project, ref string, stage api.Stage) (api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return api.Desktop{}, err
	}
	d, err := h.find(project, ref)
	if err == nil {
		return d.Wait(ctx, stage)
	}
	// Who waits between two stages may find it gone.
	row, dbErr := h.store.Desktop(ctx, project, ref)
	if dbErr == nil && !row.Deleted.IsZero() {
		return api.Desktop{}, api.Errorf(api.CodePrecondition, "desktop %s was deleted before it reached the stage %s", row.Name, stage)
	}
	return api.Desktop{}, err
}
