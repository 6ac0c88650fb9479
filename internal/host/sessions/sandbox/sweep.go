package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/session"
)

// sealName is the name of a session's snapshot: its generation, and behind that,
// when it came from elsewhere, the id that it has there.
var sealName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^rc-[0-9a-f]{32}-([0-9]+)(?:-([a-z0-9]+))?$`) })

// Sweep removes the runtime checkpoints of a session up to a generation, but the one
// that its pointer names; "" names none. The caller holds that generation, or did.
func (c *Checkpoints) Sweep(ctx context.Context, t session.Tenure, named string) error {
	s, ref := c.Sandbox, vault.ParseRef(named)
	all, err := s.cfg.Host.Snapshots.List(ctx, s.cfg.Project)
	for _, snap := range all {
		m := sealName().FindStringSubmatch(snap.Name)
		if m == nil || !strings.HasPrefix(snap.Name, c.prefix(t.Scope)) || snap.ID == ref.ID || m[2] != "" && m[2] == ref.ID {
			continue
		}
		if generation, bad := strconv.ParseInt(m[1], 10, 64); bad == nil && generation <= t.Generation {
			err = errors.Join(err, s.drop(ctx, s.cfg.Project, snap.ID))
		}
	}
	if c.Vault != nil {
		err = errors.Join(err, c.Vault.Sweep(ctx, t, ref))
	}
	return err
}

// Tidy removes snapshots of sessions, of whatever project, that were made before a
// time and that no session names: their sessions have gone on elsewhere, or never.
// named are the ids that publications name.
func (s *Sandbox) Tidy(ctx context.Context, named map[string]bool, before time.Time) error {
	all, err := s.cfg.Host.Snapshots.List(ctx, "")
	for _, snap := range all {
		m := sealName().FindStringSubmatch(snap.Name)
		if m != nil && !named[snap.ID] && !named[m[2]] && snap.Created.Before(before) {
			err = errors.Join(err, s.drop(ctx, snap.Project, snap.ID))
		}
	}
	return err
}

// Sealed finds the snapshot that a generation of a session has made; its id is empty
// when there is none.
func (c *Checkpoints) Sealed(ctx context.Context, t session.Tenure) (id string, err error) {
	snap, err := c.Sandbox.cfg.Host.Snapshots.Get(ctx, c.Sandbox.cfg.Project, c.prefix(t.Scope)+strconv.FormatInt(t.Generation, 10))
	if missing(err) {
		return "", nil
	}
	return snap.ID, err
}

// Keep removes a session's snapshots of generations before the oldest that may be
// needed, and all but so many of the newest.
func (c *Checkpoints) Keep(ctx context.Context, s session.Scope, oldest int64, most int) error {
	type sealed struct {
		id         string
		generation int64
	}
	all, err := c.Sandbox.cfg.Host.Snapshots.List(ctx, c.Sandbox.cfg.Project)
	var own []sealed
	for _, snap := range all {
		number, ours := strings.CutPrefix(snap.Name, c.prefix(s))
		if g, bad := strconv.ParseInt(number, 10, 64); ours && bad == nil {
			own = append(own, sealed{snap.ID, g})
		}
	}
	slices.SortFunc(own, func(a, b sealed) int { return cmp.Compare(b.generation, a.generation) })
	for i, snap := range own {
		if snap.generation < oldest || i >= most {
			err = errors.Join(err, c.Sandbox.drop(ctx, c.Sandbox.cfg.Project, snap.id))
		}
	}
	return err
}

// Forget removes one by its id. One that is none of this family is left alone, and one
// that is gone is no error.
func (c *Checkpoints) Forget(ctx context.Context, id string) error {
	snap, err := c.Sandbox.cfg.Host.Snapshots.Get(ctx, c.Sandbox.cfg.Project, id)
	switch {
	case missing(err):
		return nil
	case err != nil:
		return err
	case snap.ID != id || !strings.HasPrefix(snap.Name, cmp.Or(c.Family, "rc")+"-"):
		return fmt.Errorf("snapshot %s: %w", id, session.ErrForeign)
	}
	return c.Sandbox.drop(ctx, c.Sandbox.cfg.Project, id)
}
