package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

// grace is the least age of what Tidy removes: longer than anything that has begun
// can take to be published, and than all clocks are wrong.
const grace = 24 * time.Hour

// mark is one that was found.
type mark struct {
	workspace.Info

	generation int64
	id         string
}

func (v *Vault) old(m mark) bool {
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	return now().Sub(m.Modified) > grace
}

// marks lists those below a prefix. What has another name is left alone.
func (v *Vault) marks(ctx context.Context, prefix string) (found []mark, err error) {
	err = workspace.All(ctx, v.Objects, prefix, func(o workspace.Info) error {
		name := o.Key[strings.LastIndexByte(o.Key, '/')+1:]
		generation, id, _ := strings.Cut(name, "-")
		n, err := strconv.ParseInt(generation, 10, 64)
		if err == nil && idRE().MatchString(id) {
			found = append(found, mark{Info: o, generation: n, id: id})
		}
		return nil
	})
	return found, err
}

// Sweep removes the checkpoints of a session up to a generation, but the one that
// its pointer names. The caller holds that generation, or did, and has read the
// pointer since.
func (v *Vault) Sweep(ctx context.Context, t session.Tenure, named Ref) error {
	found, err := v.marks(ctx, markPrefix+v.sessionName(t.Scope)+"/")
	for _, m := range found {
		if m.generation <= t.Generation && m.id != named.ID {
			err = errors.Join(err, v.remove(ctx, m))
		}
	}
	if err != nil {
		return fmt.Errorf("remove stored runtime checkpoints: %w", err)
	}
	return nil
}

// Pointers are what sessions have published.
type Pointers struct {
	All func(ctx context.Context) ([]session.Publication, error)
	Of  func(ctx context.Context, s session.Scope) (*session.Publication, error)
}

// Named are the ids of the runtime checkpoints that publications name.
func Named(all []session.Publication) map[string]bool {
	ids := map[string]bool{}
	for _, p := range all {
		if p.RuntimeCheckpoint != nil {
			ids[ParseRef(p.RuntimeCheckpoint.CheckpointID).ID] = true
		}
	}
	return ids
}

// Report is what Tidy did.
type Report struct {
	Removed int
	// Unknown are whole checkpoints of sessions that have published nothing, or that
	// were sealed with another key: another deployment's, it may be. They stay.
	Unknown int
}

// Tidy removes what dead hosts have left: what is older than a day and was not
// finished, or is named by its session no more. Any host can do it, at any time.
func (v *Vault) Tidy(ctx context.Context, p Pointers) (Report, error) {
	var done Report
	found, err := v.marks(ctx, markPrefix)
	if err != nil {
		return done, fmt.Errorf("tidy runtime checkpoints: %w", err)
	}
	all, err := p.All(ctx) // after the list: what is published by then is in it
	if err != nil {
		return done, fmt.Errorf("tidy runtime checkpoints: %w", err)
	}
	named := Named(all)
	for _, m := range found {
		if !v.old(m) || named[m.id] {
			continue
		}
		ours, merr := v.left(ctx, m, p)
		switch {
		case merr != nil:
		case !ours:
			done.Unknown++
		default:
			if merr = v.remove(ctx, m); merr == nil {
				done.Removed++
			}
		}
		err = errors.Join(err, merr)
	}
	if err != nil {
		err = fmt.Errorf("tidy runtime checkpoints: %w", err)
	}
	return done, err
}

// left says whether an old checkpoint is known to be nobody's: nothing can name one
// that was never finished.
func (v *Vault) left(ctx context.Context, m mark, p Pointers) (bool, error) {
	_, err := v.Objects.Stat(ctx, manifestKey(m.id))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	e, err := v.entry(ctx, m.Key)
	if errors.Is(err, workspace.ErrCorrupt) || errors.Is(err, seal.ErrKey) {
		return false, nil // nobody knows whose it is
	}
	if err != nil {
		return false, err
	}
	last, err := p.Of(ctx, e.Scope)
	return err == nil && last != nil && !Named([]session.Publication{*last})[m.id], err
}

// remove takes a checkpoint away: first what makes it one, last its mark. One that
// was not whole keeps its mark for a day: a put that failed may yet come.
func (v *Vault) remove(ctx context.Context, m mark) error {
	_, err := v.Objects.Stat(ctx, manifestKey(m.id))
	whole := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, workspace.ErrCorrupt) {
		return err
	}
	if err := v.clear(ctx, m.id); err != nil || !whole && !v.old(m) {
		return err
	}
	return v.Objects.Delete(ctx, m.Key)
}

// clear removes manifest and parts.
func (v *Vault) clear(ctx context.Context, id string) error {
	if err := v.Objects.Delete(ctx, manifestKey(id)); err != nil {
		return err
	}
	return v.store().Clear(ctx, partsOf(id))
}
