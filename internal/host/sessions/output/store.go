package output

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Root is where outputs lie in the store.
const Root = "outputs/"

// What is below Root. All of one tenure is one set, whose name is not used again, and
// shares nothing with others. Stores have outputs from before there were sets, without
// that segment: they are read, and no sweep removes them.
const (
	blobs     = "blobs/"     // + set/hash, keyed where the store is encrypted
	manifests = "manifests/" // + set/hash of the manifest
	marks     = "published/" // + set/hash of the manifest
)

// metaSet is the member of a candidate's metadata that names its set.
const metaSet = "set"

const (
	prefix      = "sha256:"
	maxManifest = 16 << 20 // bytes
)

// Store is where outputs lie.
type Store struct {
	claim.Space

	// Key keys the names of blobs, so that they tell nothing of their content.
	Key []byte
	// Dir takes files on their way; it exists.
	Dir string
}

// Manifest is a set of outputs.
type Manifest struct {
	Version    int                   `json:"version"`
	Set        string                `json:"set"`
	Session    string                `json:"sessionId"`
	Work       string                `json:"workId"`
	Generation int64                 `json:"generation"`
	Entries    []session.OutputEntry `json:"entries"`
}

// name is where a blob lies.
func (s Store) name(set, hash string) (string, error) {
	sum, err := hex.DecodeString(strings.TrimPrefix(hash, prefix))
	if err != nil || len(sum) != sha256.Size || !strings.HasPrefix(hash, prefix) {
		return "", fmt.Errorf("hash %.80q is not %s and 64 hex digits", hash, prefix)
	}
	if len(s.Key) > 0 {
		m := hmac.New(sha256.New, s.Key)
		m.Write([]byte("output\n"))
		m.Write(sum)
		sum = m.Sum(nil)
	}
	return s.key(blobs, set, hex.EncodeToString(sum)), nil
}

// key is where something of a set lies.
func (s Store) key(kind, set, name string) string {
	if set != "" {
		name = set + "/" + name
	}
	return s.Root + kind + name
}

// spool is a file on its way to the store.
type spool struct{ file *os.File }

func (s Store) spool() (*spool, error) {
	f, err := os.CreateTemp(s.Dir, "output-*")
	if err != nil {
		return nil, fmt.Errorf("make room for an output: %w", err)
	}
	return &spool{f}, nil
}

func (s *spool) close() {
	_ = errors.Join(s.file.Close(), os.Remove(s.file.Name())) // the next start removes what is left
}

// put stores a blob. One that is there already is read, not trusted.
func (s Store) put(ctx context.Context, set, hash string, from *spool, size int64) error {
	key, err := s.name(set, hash)
	if err != nil {
		return err
	}
	err = s.Objects.Put(ctx, key, from.file, size)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := s.open(ctx, set, hash)
	if err != nil {
		return err
	}
	defer there.Close()
	_, err = io.Copy(io.Discard, there)
	return err
}

// manifest stores what a candidate names.
func (s Store) manifest(ctx context.Context, set string, t session.Tenure, entries []session.OutputEntry) (session.Candidate, error) {
	m := Manifest{Version: 1, Set: set, Session: t.Scope.Session, Work: t.Scope.Work, Generation: t.Generation, Entries: slices.Clone(entries)}
	slices.SortFunc(m.Entries, func(a, b session.OutputEntry) int { return strings.Compare(a.LogicalPath, b.LogicalPath) })
	if m.Entries == nil {
		m.Entries = []session.OutputEntry{}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return session.Candidate{}, fmt.Errorf("encode outputs: %w", err)
	}
	text = append(text, '\n')
	sum := sha256.Sum256(text)
	id := hex.EncodeToString(sum[:])
	var total int64
	for _, e := range entries {
		total += e.Size
	}
	c := session.Candidate{ID: idPrefix + id, ContentHash: prefix + id, Metadata: session.Metadata{metaSet: set, "files": len(entries), "bytes": total}}
	err = s.Objects.Put(ctx, s.key(manifests, set, id), bytes.NewReader(text), int64(len(text)))
	if errors.Is(err, fs.ErrExist) {
		_, err = s.Manifest(ctx, c)
	}
	if err != nil {
		return session.Candidate{}, fmt.Errorf("store outputs: %w", err)
	}
	return c, nil
}

// Manifest reads what a candidate names, and nothing else.
func (s Store) Manifest(ctx context.Context, c session.Candidate) (Manifest, error) {
	set, id, ok := parts(c)
	key := s.key(manifests, set, id)
	if !ok {
		return Manifest{}, fmt.Errorf("outputs %q are not of this provider: %w", c.ID, session.ErrForeign)
	}
	r, err := s.Objects.Get(ctx, key, 0, -1)
	if err != nil {
		return Manifest{}, missing(key, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", key, err)
	}
	var m Manifest
	sum := sha256.Sum256(text)
	if hex.EncodeToString(sum[:]) != id || json.Unmarshal(text, &m) != nil || m.Version != 1 || m.Set != set {
		return Manifest{}, &workspace.DamageError{Key: key, What: "it is not what was written", Err: workspace.ErrCorrupt}
	}
	return m, nil
}

// idPrefix begins the id of a candidate.
const idPrefix = "out_"

// parts are the set and the manifest that a candidate names; ok is false when it is
// not of this provider. One from before there were sets has none.
func parts(c session.Candidate) (set, id string, ok bool) {
	set, _ = c.Metadata[metaSet].(string)
	_, has := c.Metadata[metaSet]
	id = strings.TrimPrefix(c.ContentHash, prefix)
	return set, id, c.ID == idPrefix+id && has == (set != "") && !strings.Contains(set+id, "/")
}

func missing(key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &workspace.DamageError{Key: key, Err: workspace.ErrMissing}
	}
	return err
}

// open reads a blob. Its last Read fails when it is not what its hash says.
func (s Store) open(ctx context.Context, set, hash string) (io.ReadCloser, error) {
	key, err := s.name(set, hash)
	if err != nil {
		return nil, err
	}
	r, err := s.Objects.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, missing(key, err)
	}
	return &checked{ReadCloser: r, sum: sha256.New(), key: key, want: strings.TrimPrefix(hash, prefix)}, nil
}

// checked compares what was read with its hash at the end.
type checked struct {
	io.ReadCloser

	sum interface {
		io.Writer
		Sum(b []byte) []byte
	}
	key, want string
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.sum.Write(p[:n]) // a hash never fails
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.want {
		return n, &workspace.DamageError{Key: c.key, What: "it is not what was written", Err: workspace.ErrCorrupt}
	}
	return n, err
}
