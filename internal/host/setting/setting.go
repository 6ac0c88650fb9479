// Package setting changes running desktops.
package setting

import (
	"context"
	"strings"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Settings changes running desktops.
type Settings struct {
	// Guest returns the live parts of a desktop whose guestd has answered.
	Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)
	// Find finds a desktop by id or name.
	Find func(project, ref string) (*desk.Desktop, error)
}

// SetDisplay changes the size of the screen.
func (s *Settings) SetDisplay(ctx context.Context, project, ref string, size api.Display) (api.Display, error) {
	l, err := s.Guest(ctx, project, ref)
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
	l, err := s.Guest(ctx, project, ref)
	if err != nil {
		return err
	}
	name, variant, _ := strings.Cut(layout, ":")
	if err := l.Session.SetKeyboard(ctx, guest.Keyboard{Layout: name, Variant: variant}); err != nil {
		return err
	}
	return s.amend(ctx, project, ref, func(v *store.Desktop) { v.Keyboard = layout })
}

// SetControl says what people may do to a desktop.
func (s *Settings) SetControl(ctx context.Context, project, ref string, p api.ControlPolicy) (api.Desktop, error) {
	d, err := s.Find(project, ref)
	if err != nil {
		return api.Desktop{}, err
	}
	d.Update(ctx, func(v *store.Desktop) { v.ControlPolicy = p })
	return d.View(), nil
}

func (s *Settings) amend(ctx context.Context, project, ref string, change func(*store.Desktop)) error {
	d, err := s.Find(project, ref)
	if err != nil {
		return err
	}
	d.Update(ctx, change)
	return nil
}
