// Package access is who may call: it makes, finds and revokes tokens.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/api"
)

// TokenName is the file of the first admin token in the data directory.
const TokenName = "token"

var projectRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._/-]{1,63}$`) })

// Desk gives out tokens. Safe for concurrent use.
type Desk struct {
	dir   string
	store *store.Store
	keys  *once.Keys
	now   func() time.Time
	holds holds
}

// New makes a desk whose token file lies in the directory dir.
func New(dir string, s *store.Store, keys *once.Keys, now func() time.Time) *Desk {
	return &Desk{dir: dir, store: s, keys: keys, now: now}
}

// DefaultProject is where tokens without a project belong.
const DefaultProject = "default"

// First makes sure that the token file holds a valid token and returns its
// path. A file whose token was revoked, or that is lost, is made anew.
func (d *Desk) First(ctx context.Context) (path string, err error) {
	path = filepath.Join(d.dir, TokenName)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read token file: %w", err)
	}
	_, err = d.store.TokenByHash(ctx, token.Hash(strings.TrimSpace(string(text))))
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return path, err
	}
	t, err := d.make(ctx, api.CreateToken{Name: "first", Scopes: []string{token.ScopeAdmin}}, nil)
	if err != nil {
		return "", err
	}
	if err := atomicfile.Write(path, []byte(t.Secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write token file: %w", err)
	}
	return path, nil
}

// Authenticate finds who a secret belongs to.
func (d *Desk) Authenticate(ctx context.Context, secret string) (token.Principal, error) {
	t, err := d.store.TokenByHash(ctx, token.Hash(secret))
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

// Create makes a token; its secret is said this once. A repeated key answers
// the token without its secret.
func (d *Desk) Create(ctx context.Context, project string, req api.CreateToken, key string) (api.Token, error) {
	k, err := once.Key(project, key, "token", req)
	if err != nil {
		return api.Token{}, err
	}
	var made api.Token
	id, err := d.keys.Do(ctx, k, func() (string, error) {
		var err error
		made, err = d.make(ctx, req, k)
		return made.ID, err
	})
	if err != nil || made.ID != "" {
		return made, err
	}
	return d.store.Token(ctx, id)
}

func (d *Desk) make(ctx context.Context, req api.CreateToken, key *store.Key) (api.Token, error) {
	if len(req.Scopes) == 0 {
		req.Scopes = []string{token.ScopeRead, token.ScopeWrite}
	}
	for _, s := range req.Scopes {
		if !token.Valid(s) {
			return api.Token{}, api.Errorf(api.CodeInvalid, "unknown scope %q: want read, write or admin", s)
		}
	}
	project := cmp.Or(req.Project, DefaultProject)
	if !projectRE().MatchString(project) {
		return api.Token{}, api.Errorf(api.CodeInvalid, "a project is 1 to %d of [A-Za-z0-9._/-]", 63)
	}
	t := api.Token{
		ID: token.NewID('t'), Name: req.Name, Project: project, Scopes: req.Scopes, Created: d.now().UTC(),
	}
	secret := token.New()
	if err := d.store.InsertToken(ctx, t, token.Hash(secret), key); err != nil {
		return api.Token{}, err
	}
	t.Secret = secret
	return t, nil
}

// List lists all tokens without their secrets.
func (d *Desk) List(ctx context.Context) ([]api.Token, error) { return d.store.Tokens(ctx) }

// Delete revokes a token at once: calls in progress under it end too.
func (d *Desk) Delete(ctx context.Context, id string) error {
	err := d.store.DeleteToken(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return fault.NotFound("token", id)
	}
	if err == nil {
		d.holds.end(id)
	}
	return err
}
