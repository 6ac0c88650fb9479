package sandbox

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/session"
)

// sealName is the name of a session's snapshot: its generation, and behind that,
// when it came from elsewhere, the id that it has there.
var sealName = regexp.MustCompile(`^rc-[0-9a-f]{32}-([0-9]+)(?:-([a-z0-9]+))?$`)

// Sweep removes the runtime checkpoints of a session up to a generation, but the one
// that its pointer names; "" names none. The caller holds that generation, or did.
func (c *Checkpoints) Sweep(ctx context.Context, t session.Tenure, named string) error {
	s, ref := c.Sandbox, vault.ParseRef(named)
	all, err := s.cfg.Host.Snapshots.List(ctx, s.cfg.Project)
	for _, snap := range all {
		m := sealName.FindStringSubmatch(snap.Name)
		if m == nil || !strings.HasPrefix(snap.Name, prefix(t.Scope)) || snap.ID == ref.ID || m[2] != "" && m[2] == ref.ID {
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
		m := sealName.FindStringSubmatch(snap.Name)
		if m != nil && !named[snap.ID] && !named[m[2]] && snap.Created.Before(before) {
			err = errors.Join(err, s.drop(ctx, snap.Project, snap.ID))
		}
	}
	return err
}
