package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/api"
)

// DefaultProject is where tokens without a project belong.
const DefaultProject = "default"

// FirstToken makes sure that the token file holds a valid token and returns its
// path. A file whose token was revoked, or that is lost, is made anew.
func (h *Host) FirstToken(ctx context.Context) (path string, err error) {
	path = filepath.Join(h.cfg.DataDir, TokenName)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read token file: %w", err)
	}
	_, err = h.store.TokenByHash(ctx, token.Hash(strings.TrimSpace(string(text))))
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return path, err
	}
	t, err := h.newToken(ctx, api.CreateToken{Name: "first", Scopes: []string{token.ScopeAdmin}}, nil)
	if err != nil {
		return "", err
	}
	if err := atomicfile.Write(path, []byte(t.Secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write token file: %w", err)
	}
	return path, nil
}

// Authenticate finds who a secret belongs to.
func (h *Host) Authenticate(ctx context.Context, secret string) (token.Principal, error) {
	t, err := h.store.TokenByHash(ctx, token.Hash(secret))
	if errors.Is(err, store.ErrNotFound) {
		e := api.Errorf(api.CodeUnauthorized, "unknown token")
		e.Hint = "the first token lies in the data directory, in the file " + TokenName
		return token.Principal{}, e
	}
	if err != nil {
		return token.Principal{}, err
	}
	return token.Principal{TokenID: t.ID, Project: t.Project, Scopes: t.Scopes}, nil
}

// CreateToken makes a token; its secret is said this once. A repeated key answers
// the token without its secret.
func (h *Host) CreateToken(ctx context.Context, project string, req api.CreateToken, key string) (api.Token, error) {
	k, err := newKey(project, key, "token", req)
	if err != nil {
		return api.Token{}, err
	}
	var made api.Token
	id, err := h.idempotent(ctx, k, func() (string, error) {
		var err error
		made, err = h.newToken(ctx, req, k)
		return made.ID, err
	})
	if err != nil || made.ID != "" {
		return made, err
	}
	return h.store.Token(ctx, id)
}

func (h *Host) newToken(ctx context.Context, req api.CreateToken, key *store.Key) (api.Token, error) {
	if len(req.Scopes) == 0 {
		req.Scopes = []string{token.ScopeRead, token.ScopeWrite}
	}
	for _, s := range req.Scopes {
		if !token.Valid(s) {
			return api.Token{}, api.Errorf(api.CodeInvalid, "unknown scope %q: want read, write or admin", s)
		}
	}
	project := orDefault(req.Project, DefaultProject)
	if !labelKeyRE.MatchString(project) {
		return api.Token{}, api.Errorf(api.CodeInvalid, "a project is 1 to %d of [A-Za-z0-9._/-]", maxLabelKey)
	}
	t := api.Token{
		ID: token.NewID('t'), Name: req.Name, Project: project, Scopes: req.Scopes, Created: h.cfg.Now().UTC(),
	}
	secret := token.New()
	if err := h.store.InsertToken(ctx, t, token.Hash(secret), key); err != nil {
		return api.Token{}, err
	}
	t.Secret = secret
	return t, nil
}

// Tokens lists all tokens without their secrets.
func (h *Host) Tokens(ctx context.Context) ([]api.Token, error) { return h.store.Tokens(ctx) }

// DeleteToken revokes a token at once.
func (h *Host) DeleteToken(ctx context.Context, id string) error {
	err := h.store.DeleteToken(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("token", id)
	}
	return err
}
