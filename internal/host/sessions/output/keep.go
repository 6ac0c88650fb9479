package output

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// maxMark bounds a mark in bytes.
const maxMark = 8 << 10

// owner is the session of a mark.
type owner struct {
	Workspace   string `json:"workspaceId"`
	Environment string `json:"environmentId"`
	Session     string `json:"sessionId"`
}

// Mark notes that a candidate was published in a session, so that it is among those of
// which a policy keeps some. What the pointer names needs no mark to stay. Idempotent.
func (s Store) Mark(ctx context.Context, scope session.Scope, c session.Candidate) error {
	set, id, ok := parts(c)
	if !ok || set == "" {
		return nil // another provider's, who sweeps it; or swept by nobody
	}
	text, err := json.Marshal(owner{scope.Workspace, scope.Environment, scope.Session})
	if err != nil {
		return fmt.Errorf("mark outputs: %w", err)
	}
	err = s.Objects.Put(ctx, s.key(marks, set, id), bytes.NewReader(text), int64(len(text)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("mark outputs %s: %w", c.ID, err)
	}
	return nil
}

// ErrUnknown says that the store has published outputs and that no session names any,
// which is what another database looks like.
var ErrUnknown = errors.New("no session has published any of the outputs in the store: is this the right database?")

// Pruned is what Prune did, or would do.
type Pruned struct {
	claim.Report

	// Missing are outputs that sessions name and that are not in the store.
	Missing []string
}

// Prune removes sets that the policy does not keep, and those that were never
// published and are older than a day. Publications lists what all sessions have
// published last.
func (s Store) Prune(ctx context.Context, p retain.Policy, publications func(context.Context) ([]session.Publication, error), dry bool) (Pruned, error) {
	var out Pruned
	w := claim.Sweeper{Space: s.Space, Kinds: []string{manifests, marks, blobs}, DryRun: dry}
	w.Needed = func(ctx context.Context, there map[string]bool) (map[string]bool, error) {
		// What was published is asked first: who publishes after that is held.
		current, err := publications(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask what is published: %w", err)
		}
		needed, known := map[string]bool{}, false
		out.Missing = nil
		for _, p := range current {
			if p.Output == nil {
				continue
			}
			set, _, ok := parts(*p.Output)
			if !ok {
				continue
			}
			needed[set] = true
			is, err := s.there(ctx, there, *p.Output)
			if err != nil {
				return nil, err
			}
			if known = known || is; !is {
				out.Missing = append(out.Missing, p.Output.ID)
			}
		}
		history, err := s.history(ctx)
		if err == nil && len(history) > 0 && !known {
			err = ErrUnknown
		}
		for _, all := range history {
			for ref := range p.Keep(all) {
				needed[string(ref.Workspace)] = true
			}
		}
		return needed, err
	}
	var err error
	out.Report, err = w.Sweep(ctx)
	return out, err
}

// there says whether the store has what a candidate names: one that came after the
// list is looked for.
func (s Store) there(ctx context.Context, listed map[string]bool, c session.Candidate) (bool, error) {
	set, id, _ := parts(c)
	if listed[set] {
		return true, nil
	}
	_, err := s.Objects.Stat(ctx, s.key(manifests, set, id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// history is what each session has published. A checkpoint's name stands for set and
// manifest.
func (s Store) history(ctx context.Context) (map[owner][]workspace.Checkpoint, error) {
	all := map[owner][]workspace.Checkpoint{}
	err := s.marked(ctx, func(of owner, set string, o workspace.Info) {
		ref := workspace.Ref{Workspace: workspace.ID(set), Checkpoint: workspace.CheckpointID(o.Key)}
		all[of] = append(all[of], workspace.Checkpoint{Ref: ref, Created: o.Modified})
	})
	return all, err
}

// marked tells of each mark whose it is.
func (s Store) marked(ctx context.Context, fn func(of owner, set string, o workspace.Info)) error {
	return s.Each(ctx, marks, func(set string, o workspace.Info) error {
		of, err := s.mark(ctx, o.Key)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a sweep was faster
		}
		if err == nil {
			fn(of, set, o)
		}
		return err
	})
}

// Published are outputs that a session has published.
type Published struct {
	session.Candidate

	Time time.Time // zero: not known
}

// Published lists what a session has published and sweeps have left, newest first.
// Current is what its pointer names.
func (s Store) Published(ctx context.Context, scope session.Scope, current *session.Candidate) ([]Published, error) {
	want := owner{scope.Workspace, scope.Environment, scope.Session}
	var all []Published
	err := s.marked(ctx, func(of owner, set string, o workspace.Info) {
		id := path.Base(o.Key)
		if of == want {
			c := session.Candidate{ID: idPrefix + id, ContentHash: prefix + id, Metadata: session.Metadata{metaSet: set}}
			all = append(all, Published{c, o.Modified})
		}
	})
	slices.SortFunc(all, func(a, b Published) int { return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.ID, b.ID)) })
	if current == nil {
		return all, err
	}
	newest := Published{Candidate: *current}
	all = slices.DeleteFunc(all, func(p Published) bool {
		if p.ID == current.ID {
			newest.Time = p.Time
		}
		return p.ID == current.ID
	})
	return append([]Published{newest}, all...), err
}

// mark reads whose a mark is. One that is damaged ends a sweep: nobody knows what it
// keeps.
func (s Store) mark(ctx context.Context, key string) (owner, error) {
	r, err := s.Objects.Get(ctx, key, 0, -1)
	if err != nil {
		return owner{}, err
	}
	defer r.Close()
	var of owner
	text, err := io.ReadAll(io.LimitReader(r, maxMark))
	if err != nil {
		return of, fmt.Errorf("read %s: %w", key, err)
	}
	if json.Unmarshal(text, &of) != nil || of.Session == "" {
		return of, &workspace.DamageError{Key: key, What: "it is not what was written", Err: workspace.ErrCorrupt}
	}
	return of, nil
}

// Reader reads outputs, and keeps sweeps from those that it has begun to read, for a
// day. Safe for concurrent use.
type Reader struct {
	Store

	name string // who holds what is read

	mu   sync.Mutex
	held map[string]time.Time // guarded by mu; by set; until when
}

// NewReader makes a reader of that name, which is nobody else's.
func NewReader(s Store, name string) *Reader {
	return &Reader{Store: s, name: name, held: map[string]time.Time{}}
}

// Open finds what a candidate names, and holds it. It is claim.ErrDropped when a sweep
// has it already.
func (r *Reader) Open(ctx context.Context, c session.Candidate) (*Deposit, error) {
	set, _, ok := parts(c)
	if ok && set != "" {
		if err := r.hold(ctx, set); err != nil {
			return nil, fmt.Errorf("outputs %s: %w", c.ID, err)
		}
	}
	m, err := r.Manifest(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Deposit{Manifest: m, store: r.Store}, nil
}

func (r *Reader) hold(ctx context.Context, set string) error {
	now := time.Now()
	r.mu.Lock()
	enough := r.held[set].Sub(now) > claim.Life/2
	r.mu.Unlock()
	if enough {
		return nil
	}
	if err := r.Hold(ctx, set, r.name); err != nil {
		return err
	}
	if err := r.Dropped(ctx, set); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for set, until := range r.held {
		if until.Before(now) {
			delete(r.held, set)
		}
	}
	r.held[set] = now.Add(claim.Life)
	return nil
}

// Deposit is outputs that are held while they are read.
type Deposit struct {
	Manifest

	store Store
}

// File reads one of a hash. Its last Read fails when it is not what its hash says.
func (s *Deposit) File(ctx context.Context, hash string) (io.ReadCloser, error) {
	return s.store.open(ctx, s.Set, hash)
}
