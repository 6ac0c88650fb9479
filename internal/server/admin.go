package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

type imageIn struct {
	Ref string `path:"ref" maxLength:"200" doc:"Name, name:tag or digest"`
}

type sealIn struct {
	imageIn

	Body api.SealImage
}

type tokenIn struct {
	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable; a repeated answer lacks the secret"`
	Body api.CreateToken
}

type tokenRef struct {
	ID string `path:"id" maxLength:"12"`
}

func (s *Server) registerHost() {
	route.Call(s.routes, huma.Operation{
		OperationID: "info", Method: http.MethodGet, Path: "/v1/info", Tags: []string{"host"}, Summary: "Describe the host",
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, _ *struct{}) (*route.Reply[api.Info], error) {
		v, err := s.host.Info(ctx)
		return &route.Reply[api.Info]{Body: v}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "doctor", Method: http.MethodGet, Path: "/v1/doctor", Tags: []string{"host"},
		Summary: "Examine the host: what is there, what is missing, what that costs",
	}, route.Read.Long(), func(ctx context.Context, _ *struct{}) (*route.Reply[api.Doctor], error) {
		if s.cfg.Doctor == nil {
			return nil, api.Errorf(api.CodeUnsupported, "this server was started without its doctor")
		}
		return &route.Reply[api.Doctor]{Body: doctor.Examine(ctx, s.cfg.Doctor())}, nil
	})
}

func (s *Server) registerImages() {
	route.Call(s.routes, huma.Operation{
		OperationID: "list-images", Method: http.MethodGet, Path: "/v1/images", Tags: []string{"images"}, Summary: "List images",
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, _ *struct{}) (*route.Reply[api.ImageList], error) {
		list, err := s.host.Shelf.List(ctx)
		return &route.Reply[api.ImageList]{Body: api.ImageList{Images: list}}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "get-image", Method: http.MethodGet, Path: "/v1/images/{ref}", Tags: []string{"images"}, Summary: "Describe an image",
	}, route.Read, func(ctx context.Context, in *imageIn) (*route.Reply[api.Image], error) {
		v, err := s.host.Shelf.Get(ctx, in.Ref)
		return &route.Reply[api.Image]{Body: v}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "seal-image", Method: http.MethodPost, Path: "/v1/images/{ref}/seal", Tags: []string{"images"},
		Summary: "Make an image's boot snapshot, which its desktops are cloned from",
		Description: "Without it the image's first desktop of that shape makes it. Answers when there is one. It is shared by all projects; " +
			"not_parked says what is missing in it.",
	}, route.Write.Long(), func(ctx context.Context, in *sealIn) (*route.Reply[api.Snapshot], error) {
		v, err := s.host.SealBoot(ctx, in.Ref, in.Body)
		return &route.Reply[api.Snapshot]{Body: v}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "delete-image", Method: http.MethodDelete, Path: "/v1/images/{ref}", Tags: []string{"images"},
		Summary: "Remove an image that no desktop has", DefaultStatus: http.StatusNoContent,
	}, route.Admin, func(ctx context.Context, in *imageIn) (*route.None, error) {
		return nil, s.host.Shelf.Remove(ctx, in.Ref)
	})
}

func (s *Server) registerTokens() {
	route.Call(s.routes, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Tags: []string{"tokens"},
		Summary: "Make a token; its secret is said this once", DefaultStatus: http.StatusCreated,
	}, route.Admin, func(ctx context.Context, in *tokenIn) (*route.Reply[api.Token], error) {
		v, err := s.host.Access.Create(ctx, route.Project(ctx), in.Body, in.Key)
		return &route.Reply[api.Token]{Body: v}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Tags: []string{"tokens"}, Summary: "List tokens",
	}, route.Admin, func(ctx context.Context, _ *struct{}) (*route.Reply[api.TokenList], error) {
		list, err := s.host.Access.List(ctx)
		return &route.Reply[api.TokenList]{Body: api.TokenList{Tokens: list}}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "delete-token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Tags: []string{"tokens"},
		Summary: "Revoke a token at once", DefaultStatus: http.StatusNoContent,
	}, route.Admin, func(ctx context.Context, in *tokenRef) (*route.None, error) {
		return nil, s.host.Access.Delete(ctx, in.ID)
	})
}
