package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// find returns a desktop that exists, by id or name.
func (h *Host) find(project, ref string) (*desktop, error) {
	h.mu.Lock()
	d := h.desktops[ref]
	h.mu.Unlock()
	if d != nil && d.project == project {
		return d, nil
	}
	for _, d := range h.all() {
		if d.project == project && d.snapshot().Name == ref {
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
		return d.measure(d.snapshot()), nil
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

// ListFilter narrows a list. Zero members do not.
type ListFilter struct {
	Labels []string // key, or key=value
	State  api.DesktopState
	Name   string
}

func (f ListFilter) match(v api.Desktop) bool {
	if (f.State != "" && f.State != v.State) || (f.Name != "" && f.Name != v.Name) {
		return false
	}
	for _, l := range f.Labels {
		key, want, exact := strings.Cut(l, "=")
		got, has := v.Labels[key]
		if !has || (exact && got != want) {
			return false
		}
	}
	return true
}

// Desktops lists the desktops of a project, newest first.
func (h *Host) Desktops(_ context.Context, project string, f ListFilter) ([]api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return nil, err
	}
	list := []api.Desktop{}
	for _, d := range h.all() {
		if v := d.snapshot(); d.project == project && f.match(v) {
			list = append(list, v)
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
	if err != nil {
		return api.Desktop{}, err
	}
	for {
		v, changed := d.watch()
		done, err := waited(v, stage)
		if done || err != nil {
			return v, err
		}
		select {
		case <-changed:
		case <-d.done:
			if v := d.snapshot(); v.State == api.StateDeleting {
				return v, api.Errorf(api.CodePrecondition, "desktop %s was deleted", d.id)
			}
			return v, api.Errorf(api.CodeGuestUnavail, "the host is stopping")
		case <-ctx.Done():
			e := fault.At(string(nextStage(v.Stages)), ctx.Err())
			e.Detail = "desktop " + v.Name + " is " + string(v.State) + ", stage " + string(stage) + " is not reached yet"
			return v, e
		}
	}
}

// waited says whether a view has the stage, or can never have it.
func waited(v api.Desktop, stage api.Stage) (bool, error) {
	reached := slices.ContainsFunc(v.Stages, func(t api.StageTime) bool { return t.Stage == stage })
	switch v.State {
	case api.StateReady:
		return true, nil
	case api.StateFailed:
		if reached && v.Failure != nil && v.Failure.Stage != "run" {
			return true, nil
		}
		if v.Failure != nil {
			return false, v.Failure
		}
		return false, api.Errorf(api.CodeMachineFailed, "desktop %s failed", v.Name)
	case api.StateStopped:
		return false, api.Errorf(api.CodePrecondition, "the guest of desktop %s switched itself off", v.Name)
	case api.StateDeleting:
		return false, api.Errorf(api.CodePrecondition, "desktop %s is being deleted", v.Name)
	case api.StateStarting:
	}
	return reached, nil
}
