package workspaces

import (
	"encoding/json"
	"fmt"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Members of a candidate's metadata.
const (
	metaKind    = "kind"
	metaDesktop = "desktop"
	metaFrozen  = "frozen_ms"
	metaFull    = "full"
)

// kindCheckpoint is a candidate that is a checkpoint in the store. Others are not
// this package's.
const kindCheckpoint = "checkpoint"

// candidateOf is a checkpoint as a fence publishes it.
func candidateOf(c api.Checkpoint) session.Candidate {
	meta := session.Metadata{metaKind: kindCheckpoint, metaDesktop: c.Desktop, metaFull: c.Full}
	if c.Frozen {
		meta[metaFrozen] = c.FrozenMS
	}
	return session.Candidate{ID: c.Ref, ContentHash: c.Content, Metadata: meta}
}

// isCheckpoint says whether a candidate is a checkpoint in the store.
func isCheckpoint(c session.Candidate) bool { return c.Metadata[metaKind] == kindCheckpoint }

// checkpointOf is what is to be said of a candidate whose manifest is m.
func checkpointOf(name string, m *workspace.Manifest, meta session.Metadata) api.Checkpoint {
	stats := m.Checkpoint().Stats
	c := api.Checkpoint{
		Ref: m.String(), Workspace: name, Content: m.Content(), Size: m.Size, Created: m.Created,
		Used: stats.Used, Stored: stats.Stored, Added: stats.Added,
	}
	if !m.Parent.IsZero() {
		c.Parent = m.Parent.String()
	}
	c.Desktop, _ = meta[metaDesktop].(string)
	c.Full, _ = meta[metaFull].(string)
	switch ms := meta[metaFrozen].(type) {
	case float64:
		c.Frozen, c.FrozenMS = true, ms
	case json.Number:
		c.Frozen = true
		c.FrozenMS, _ = ms.Float64() // a number that JSON has taken
	}
	return c
}

// same refuses a manifest that is not what the pointer names.
func same(c session.Candidate, m *workspace.Manifest) error {
	if m.Content() == c.ContentHash {
		return nil
	}
	return &workspace.DamageError{
		Key:  workspace.ManifestKey(m.Ref),
		What: fmt.Sprintf("it says %s, the publication %s", m.Content(), c.ContentHash), Err: workspace.ErrCorrupt,
	}
}
