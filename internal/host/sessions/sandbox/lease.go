package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Provider is the provider of every lease.
const Provider = "desktop-vm"

// LabelScope is the label of a session's desktop that proves whose it is: a digest
// of the session's key.
const LabelScope = "deskfork.session/scope"

// asleep follows the incarnation in the id of a suspended machine, which runs no
// more and so is another thing to end.
const asleep = "/suspended"

// Members of a lease's metadata.
const (
	metaProject = "project"
	metaDesktop = "desktop"
	metaHost    = "host"
)

// maxLabel is the length limit of a label's value in bytes.
const maxLabel = 255

// Name is the name of the desktop that is allocated under an intent. No other
// desktop of the project has it.
func Name(intent string) string { return "s-" + digest(intent)[:40] }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// labels say whose work a desktop does.
func labels(more map[string]string, s session.Scope) map[string]string {
	all := map[string]string{usage.LabelSession: clip(s.Session), LabelScope: digest(s.Key())}
	for k, v := range more {
		if _, ours := all[k]; !ours {
			all[k] = v
		}
	}
	return all
}

// clip cuts text to what a label holds, at a rune.
func clip(text string) string {
	for len(text) > maxLabel {
		_, n := utf8.DecodeLastRuneInString(text[:maxLabel+1])
		text = text[:maxLabel+1-n]
	}
	return text
}

// leaseOf names the present incarnation of a desktop.
func (s *Sandbox) leaseOf(v api.Desktop) session.Lease {
	l := session.Lease{Provider: Provider, RuntimeID: runtimeID(v), Metadata: session.Metadata{metaProject: v.Project, metaDesktop: v.ID}}
	if s.cfg.Node != "" {
		l.Metadata[metaHost] = s.cfg.Node
	}
	return l
}

// here refuses the lease of a machine that lies on another host: that one alone
// knows whether it is gone.
func (s *Sandbox) here(l session.Lease) error {
	if node, _ := l.Metadata[metaHost].(string); node != s.cfg.Node {
		return fmt.Errorf("machine %s lies on host %q, this is %q: only its own host can tell and end it", l.RuntimeID, node, s.cfg.Node)
	}
	return nil
}

func runtimeID(v api.Desktop) string {
	if v.State == api.StateSuspended {
		return v.Incarnation + asleep
	}
	return v.Incarnation
}

// Desktop says which desktop a lease is of. ErrForeign when another provider made
// it.
func Desktop(l session.Lease) (project, desktop string, err error) {
	if l.Provider != Provider {
		return "", "", fmt.Errorf("lease of runtime %q: %w: %q, not %s", l.RuntimeID, session.ErrForeign, l.Provider, Provider)
	}
	project, _ = l.Metadata[metaProject].(string)
	desktop, _ = l.Metadata[metaDesktop].(string)
	if project == "" || desktop == "" || strings.TrimSuffix(l.RuntimeID, asleep) == "" {
		return "", "", fmt.Errorf("lease of runtime %q names no desktop: it is damaged", l.RuntimeID)
	}
	return project, desktop, nil
}
