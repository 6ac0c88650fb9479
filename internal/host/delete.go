package host

import (
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// waitLimit is how long a caller of Delete waits when its context says nothing.
const waitLimit = 2 * time.Minute

// Delete removes a desktop and returns when nothing is left of it. It may be
// called again; a desktop that is gone is no error, one that never was is.
func (h *Host) Delete(ctx context.Context, project, ref string) error {
	if err := h.whenReady(); err != nil {
		return err
	}
	d, err := h.find(project, ref)
	if err != nil {
		_, buried := h.store.Desktop(ctx, project, ref)
		if errors.Is(buried, store.ErrNotFound) {
			return err
		}
		return buried
	}
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	if err := d.Delete(ctx); err != nil {
		return err
	}
	// The actor has ended: it removed the desktop, or was stopped before.
	if _, err := h.find(d.Project, d.ID); err != nil {
		return nil
	}
	e := api.Errorf(api.CodeGuestUnavail, "the host is stopping; desktop %s is removed when it starts again", d.ID)
	e.Stage = "delete"
	return e
}
