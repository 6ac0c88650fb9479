package host

import (
	"context"
	"strings"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Settings changes running desktops.
type Settings struct{ h *Host }

// SetDisplay changes the size of the screen.
func (s *Settings) SetDisplay(ctx context.Context, project, ref string, size api.Display) (api.Display, error) {
	l, err := s.h.Guest(ctx, project, ref)
	if err != nil {
		return api.Display{}, err
	}
	got, err := l.Session.SetScreen(ctx, size.Width, size.Height)
	if err != nil {
		return api.Display{}, err
	}
	became := api.Display{Width: got.Width, Height: got.Height}
	return became, s.amend(ctx, project, ref, func(v *store.Desktop) { v.Display = became })
}

// SetKeyboard changes the layout: "layout" or "layout:variant".
func (s *Settings) SetKeyboard(ctx context.Context, project, ref, layout string) error {
	l, err := s.h.Guest(ctx, project, ref)
	if err != nil {
		return err
	}
	name, variant, _ := strings.Cut(layout, ":")
	if err := l.Session.SetKeyboard(ctx, guest.Keyboard{Layout: name, Variant: variant}); err != nil {
		return err
	}
	return s.amend(ctx, project, ref, func(v *store.Desktop) { v.Keyboard = layout })
}

func (s *Settings) amend(ctx context.Context, project, ref string, change func(*store.Desktop)) error {
	d, err := s.h.find(project, ref)
	if err != nil {
		return err
	}
	d.Update(ctx, change)
	return nil
}
