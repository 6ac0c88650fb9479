package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

type displayIn struct {
	route.InDesktop

	Body api.Display
}

type keyboardIn struct {
	route.InDesktop

	Body api.Keyboard
}

func (s *Server) registerSettings() {
	route.Call(s.routes, huma.Operation{
		OperationID: "set-display", Method: http.MethodPut, Path: "/v1/desktops/{desktop}/display", Tags: []string{"screen"},
		Summary: "Change the size of the screen", Description: "Answers the size that it became.",
	}, route.Write, func(ctx context.Context, in *displayIn) (*route.Reply[api.Display], error) {
		became, err := s.host.Settings.SetDisplay(ctx, route.Project(ctx), in.Desktop, in.Body)
		return &route.Reply[api.Display]{Body: became}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "set-keyboard", Method: http.MethodPut, Path: "/v1/desktops/{desktop}/keyboard", Tags: []string{"screen"},
		Summary: "Change the keyboard layout", DefaultStatus: http.StatusNoContent,
	}, route.Write, func(ctx context.Context, in *keyboardIn) (*route.None, error) {
		return nil, s.host.Settings.SetKeyboard(ctx, route.Project(ctx), in.Desktop, in.Body.Layout)
	})
}
