package client

import (
	"context"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
)

// Images lists, seals and removes images.
type Images struct{ c *Client }

// List lists images.
func (s *Images) List(ctx context.Context) ([]api.Image, error) {
	list, err := fetch[api.ImageList](ctx, s.c, call{path: "/v1/images"})
	return list.Images, err
}

// Get describes an image by name, name:tag or digest.
func (s *Images) Get(ctx context.Context, ref string) (api.Image, error) {
	return fetch[api.Image](ctx, s.c, call{path: "/v1/images/" + seg(ref)})
}

// Seal makes the boot snapshot of an image, which its desktops are cloned from,
// and answers it when it is sealed: in a minute or more, or at once when there is
// one and Again does not ask for another.
func (s *Images) Seal(ctx context.Context, ref string, spec api.SealImage) (api.Snapshot, error) {
	return fetch[api.Snapshot](ctx, s.c, call{
		method: http.MethodPost, path: "/v1/images/" + seg(ref) + "/seal", json: spec, same: !spec.Again,
	})
}

// Delete removes an image that no desktop uses.
func (s *Images) Delete(ctx context.Context, ref string) error {
	return s.c.run(ctx, call{method: http.MethodDelete, path: "/v1/images/" + seg(ref)})
}

// Tokens makes and removes tokens.
type Tokens struct{ c *Client }

// Create makes a token; its secret is in this answer and never said again.
func (s *Tokens) Create(ctx context.Context, spec api.CreateToken) (api.Token, error) {
	return fetch[api.Token](ctx, s.c, call{method: http.MethodPost, path: "/v1/tokens", json: spec, keyed: true})
}

// List lists tokens without their secrets.
func (s *Tokens) List(ctx context.Context) ([]api.Token, error) {
	list, err := fetch[api.TokenList](ctx, s.c, call{path: "/v1/tokens"})
	return list.Tokens, err
}

// Delete revokes a token.
func (s *Tokens) Delete(ctx context.Context, id string) error {
	return s.c.run(ctx, call{method: http.MethodDelete, path: "/v1/tokens/" + seg(id)})
}
