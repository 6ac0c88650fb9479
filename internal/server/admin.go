package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/pkg/api"
)

type imageIn struct {
	Ref string `path:"ref" maxLength:"200" doc:"Name, name:tag or digest"`
}

type tokenIn struct {
	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable; a repeated answer lacks the secret"`
	Body api.CreateToken
}

type tokenRef struct {
	ID string `path:"id" maxLength:"12"`
}

func (s *Server) registerHost() {
	call(s, huma.Operation{
		OperationID: "info", Method: http.MethodGet, Path: "/v1/info", Tags: []string{"host"}, Summary: "Describe the host",
	}, read, func(ctx context.Context, _ *struct{}) (*reply[api.Info], error) {
		v, err := s.host.Info(ctx)
		return &reply[api.Info]{Body: v}, err
	})
	call(s, huma.Operation{
		OperationID: "doctor", Method: http.MethodGet, Path: "/v1/doctor", Tags: []string{"host"},
		Summary: "Examine the host: what is there, what is missing, what that costs",
	}, read.long(), func(ctx context.Context, _ *struct{}) (*reply[api.Doctor], error) {
		if s.cfg.Doctor == nil {
			return nil, api.Errorf(api.CodeUnsupported, "this server was started without its doctor")
		}
		return &reply[api.Doctor]{Body: doctor.Examine(ctx, s.cfg.Doctor())}, nil
	})
}

func (s *Server) registerImages() {
	call(s, huma.Operation{
		OperationID: "list-images", Method: http.MethodGet, Path: "/v1/images", Tags: []string{"images"}, Summary: "List images",
	}, read, func(ctx context.Context, _ *struct{}) (*reply[api.ImageList], error) {
		list, err := s.host.Images(ctx)
		return &reply[api.ImageList]{Body: api.ImageList{Images: list}}, err
	})
	call(s, huma.Operation{
		OperationID: "get-image", Method: http.MethodGet, Path: "/v1/images/{ref}", Tags: []string{"images"}, Summary: "Describe an image",
	}, read, func(ctx context.Context, in *imageIn) (*reply[api.Image], error) {
		v, err := s.host.Shelf.Get(ctx, in.Ref)
		return &reply[api.Image]{Body: v}, err
	})
	call(s, huma.Operation{
		OperationID: "delete-image", Method: http.MethodDelete, Path: "/v1/images/{ref}", Tags: []string{"images"},
		Summary: "Remove an image that no desktop has", DefaultStatus: http.StatusNoContent,
	}, admin, func(ctx context.Context, in *imageIn) (*none, error) {
		return nil, s.host.Shelf.Remove(ctx, in.Ref)
	})
}

func (s *Server) registerTokens() {
	call(s, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/v1/tokens", Tags: []string{"tokens"},
		Summary: "Make a token; its secret is said this once", DefaultStatus: http.StatusCreated,
	}, admin, func(ctx context.Context, in *tokenIn) (*reply[api.Token], error) {
		v, err := s.host.Access.Create(ctx, project(ctx), in.Body, in.Key)
		return &reply[api.Token]{Body: v}, err
	})
	call(s, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/v1/tokens", Tags: []string{"tokens"}, Summary: "List tokens",
	}, admin, func(ctx context.Context, _ *struct{}) (*reply[api.TokenList], error) {
		list, err := s.host.Access.List(ctx)
		return &reply[api.TokenList]{Body: api.TokenList{Tokens: list}}, err
	})
	call(s, huma.Operation{
		OperationID: "delete-token", Method: http.MethodDelete, Path: "/v1/tokens/{id}", Tags: []string{"tokens"},
		Summary: "Revoke a token at once", DefaultStatus: http.StatusNoContent,
	}, admin, func(ctx context.Context, in *tokenRef) (*none, error) {
		return nil, s.host.Access.Delete(ctx, in.ID)
	})
}
