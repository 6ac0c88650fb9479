package input

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Root is where uploaded inputs lie in the store.
const Root = "inputs/"

// Below Root, each followed by the input's id.
const (
	contents     = "blobs/"     // + id/content
	descriptions = "manifests/" // + id/input, written last
)

// maxDescription bounds a description in bytes.
const maxDescription = 64 << 10

// Store is where uploaded inputs lie.
type Store struct {
	claim.Space

	// Dir takes files on their way; it exists.
	Dir string
}

// description is what is known of an input.
type description struct {
	Project string `json:"project"`
	Hash    string `json:"hash"`
	Size    int64  `json:"size"`
}

// Put takes a file of a project. When want is not empty it must be its hash.
func (s Store) Put(ctx context.Context, project, want string, body io.Reader) (_ api.Input, err error) {
	f, err := os.CreateTemp(s.Dir, "input-*")
	if err != nil {
		return api.Input{}, fmt.Errorf("make room for an input: %w", err)
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }() // the next start removes what is left
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, session.MaxInputBytes+1))
	if err != nil {
		return api.Input{}, fmt.Errorf("take input: %w", err)
	}
	in := api.Input{ID: token.NewID('i'), Hash: prefix + hex.EncodeToString(sum.Sum(nil)), Size: n}
	switch {
	case n > session.MaxInputBytes:
		return api.Input{}, api.Errorf(api.CodeTooLarge, "an input has at most %d bytes", session.MaxInputBytes)
	case want != "" && want != in.Hash:
		return api.Input{}, api.Errorf(api.CodeInvalid, "what came is %s, not %s", in.Hash, want)
	}
	text, err := json.Marshal(description{project, in.Hash, in.Size})
	if err != nil {
		return api.Input{}, fmt.Errorf("describe input: %w", err)
	}
	// What breaks off here is swept away.
	if err := s.Objects.Put(ctx, s.content(in.ID), f, n); err != nil {
		return api.Input{}, fmt.Errorf("store input: %w", err)
	}
	err = s.Objects.Put(ctx, s.description(in.ID), bytes.NewReader(text), int64(len(text)))
	if err != nil && !errors.Is(err, fs.ErrExist) { // our own, whose answer was lost
		return api.Input{}, fmt.Errorf("store input: %w", err)
	}
	in.Expires = time.Now().Add(claim.Life).UTC()
	return in, nil
}

func (s Store) content(id string) string     { return Root + contents + id + "/content" }
func (s Store) description(id string) string { return Root + descriptions + id + "/input" }

// Take finds an input of a project and holds it for a run, until Release.
func (s Store) Take(ctx context.Context, project, id, run string) (api.Input, error) {
	if err := s.Hold(ctx, id, run); err != nil {
		return api.Input{}, err
	}
	in, err := s.find(ctx, project, id)
	if err != nil {
		return api.Input{}, errors.Join(err, s.Release(ctx, id, run))
	}
	return in, nil
}

func (s Store) find(ctx context.Context, project, id string) (api.Input, error) {
	gone := api.Errorf(api.CodeNotFound, "no input %q in this project", id)
	gone.Hint = "an input that no run uses is removed some time after a day; upload it again"
	if err := s.Dropped(ctx, id); errors.Is(err, claim.ErrDropped) {
		return api.Input{}, gone
	} else if err != nil {
		return api.Input{}, err
	}
	r, err := s.Objects.Get(ctx, s.description(id), 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return api.Input{}, gone
	}
	if err != nil {
		return api.Input{}, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxDescription))
	if err != nil {
		return api.Input{}, fmt.Errorf("read input: %w", err)
	}
	var d description
	if err := json.Unmarshal(text, &d); err != nil {
		return api.Input{}, &workspace.DamageError{Key: s.description(id), What: err.Error(), Err: workspace.ErrCorrupt}
	}
	if d.Project != project {
		return api.Input{}, gone
	}
	return api.Input{ID: id, Hash: d.Hash, Size: d.Size}, nil
}

// Prune removes inputs that no run needs and that are older than a day.
func (s Store) Prune(ctx context.Context, dry bool) (claim.Report, error) {
	w := claim.Sweeper{
		Space: s.Space, Kinds: []string{descriptions, contents}, DryRun: dry,
		Needed: func(context.Context, map[string]bool) (map[string]bool, error) { return map[string]bool{}, nil },
	}
	return w.Sweep(ctx)
}

// OpenFile implements session.InputAccess for files that were uploaded. That they are
// what they were is for the reader to see.
func (s Store) OpenFile(ctx context.Context, r session.Resource) (io.ReadCloser, error) {
	from, err := s.Objects.Get(ctx, s.content(r.ID), 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		err = &workspace.DamageError{Key: s.content(r.ID), Err: workspace.ErrMissing}
	}
	return from, err
}
