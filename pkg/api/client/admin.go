package client

import (
	"context"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Images lists, seals and removes images.
type Images struct{ c *Client }

// List lists images.
func (s *Images) List(ctx context.Context) ([]api.Image, error) {
	list, err := wire.Fetch[api.ImageList](ctx, s.c.server, wire.Call{Path: "/v1/images"})
	return list.Images, err
}

// Get describes an image by name, name:tag or digest.
func (s *Images) Get(ctx context.Context, ref string) (api.Image, error) {
	return wire.Fetch[api.Image](ctx, s.c.server, wire.Call{Path: "/v1/images/" + wire.Seg(ref)})
}

// Seal makes the boot snapshot of an image, which its desktops are cloned from,
// and answers it when it is sealed: in a minute or more, or at once when there is
// one and Again does not ask for another.
func (s *Images) Seal(ctx context.Context, ref string, spec api.SealImage) (api.Snapshot, error) {
	return wire.Fetch[api.Snapshot](ctx, s.c.server, wire.Call{
		Method: http.MethodPost, Path: "/v1/images/" + wire.Seg(ref) + "/seal", JSON: spec, Same: !spec.Again,
	})
}

// Delete removes an image that no desktop uses.
func (s *Images) Delete(ctx context.Context, ref string) error {
	return s.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: "/v1/images/" + wire.Seg(ref)})
}

// Tokens makes and removes tokens.
type Tokens struct{ c *Client }

// Create makes a token; its secret is in this answer and never said again.
func (s *Tokens) Create(ctx context.Context, spec api.CreateToken) (api.Token, error) {
	return wire.Fetch[api.Token](ctx, s.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/tokens", JSON: spec, Keyed: true})
}

// List lists tokens without their secrets.
func (s *Tokens) List(ctx context.Context) ([]api.Token, error) {
	list, err := wire.Fetch[api.TokenList](ctx, s.c.server, wire.Call{Path: "/v1/tokens"})
	return list.Tokens, err
}

// Delete revokes a token.
func (s *Tokens) Delete(ctx context.Context, id string) error {
	return s.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: "/v1/tokens/" + wire.Seg(id)})
}
