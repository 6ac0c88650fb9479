package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Metadata holds strings, numbers, booleans and nulls, and nothing nested.
type Metadata map[string]any

// Validate refuses nested values.
func (m Metadata) Validate() error {
	for k, v := range m {
		switch v.(type) {
		case nil, string, bool, json.Number, float64, float32,
			int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		default:
			return fmt.Errorf("metadata %q is a %T: only strings, numbers, booleans and null are kept", k, v)
		}
	}
	return nil
}

// UnmarshalJSON keeps numbers exactly as they were written.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var plain map[string]any
	if err := dec.Decode(&plain); err != nil {
		return err
	}
	*m = plain
	return m.Validate()
}

// Candidate names an immutable, complete, verified checkpoint of a workspace or
// set of outputs. It means nothing until it is published.
type Candidate struct {
	ID          string `json:"id"`
	ContentHash string `json:"contentHash"`
	// Revision is the store's own number of it, at least 0.
	Revision int64    `json:"revision,omitempty"`
	Metadata Metadata `json:"metadata,omitempty"`
}

// Validate refuses a candidate without id or hash.
func (c Candidate) Validate() error {
	if c.ID == "" || c.ContentHash == "" || c.Revision < 0 {
		return fmt.Errorf("candidate %q has content hash %q and revision %d: id and hash must be set, the revision not negative", c.ID, c.ContentHash, c.Revision)
	}
	return c.Metadata.Validate()
}

// CheckpointKind is what a runtime checkpoint keeps.
type CheckpointKind string

// Kinds of runtime checkpoints, the richer one first.
const (
	CheckpointProcess    CheckpointKind = "process"
	CheckpointFilesystem CheckpointKind = "filesystem"
)

// RuntimeCheckpoint refers to a sealed machine that a later generation may go on
// from. It only saves time: what counts is the workspace.
type RuntimeCheckpoint struct {
	Provider          string         `json:"provider"`
	CheckpointID      string         `json:"checkpointId"`
	Kind              CheckpointKind `json:"kind"`
	SourceRuntimeID   string         `json:"sourceRuntimeId"`
	SessionID         string         `json:"sessionId"`
	WorkGeneration    int64          `json:"workGeneration"`
	WorkspaceRevision int64          `json:"workspaceRevision"`
	HarnessVersion    string         `json:"harnessVersion"`
	// RuntimeIdentity says what ran there: see RuntimeIdentity.
	RuntimeIdentity string `json:"runtimeIdentity"`
}

// Validate refuses a reference that could not be restored.
func (c RuntimeCheckpoint) Validate() error {
	if c.Provider == "" || c.CheckpointID == "" || c.SourceRuntimeID == "" || c.SessionID == "" ||
		c.WorkGeneration < 1 || c.WorkspaceRevision < 0 || !slices.Contains([]CheckpointKind{CheckpointProcess, CheckpointFilesystem}, c.Kind) {
		return fmt.Errorf("runtime checkpoint %q of %q is incomplete", c.CheckpointID, c.Provider)
	}
	return nil
}

// Reusable says whether a run may go on from the checkpoint: same kind, session,
// harness and programs, and an older generation.
func (c RuntimeCheckpoint) Reusable(kind CheckpointKind, t Tenure, d Driver) bool {
	return c.Validate() == nil && c.Kind == kind && c.SessionID == t.Scope.Session && c.WorkGeneration < t.Generation &&
		c.HarnessVersion == d.HarnessVersion() && c.RuntimeIdentity == d.RuntimeIdentity()
}

// Draft is what a holder asks to publish.
type Draft struct {
	Workspace Candidate `json:"workspaceCandidate"`
	// Output is nil when the session never had outputs.
	Output            *Candidate         `json:"outputCandidate"`
	RuntimeCheckpoint *RuntimeCheckpoint `json:"runtimeCheckpoint,omitempty"`
	// Retained is the suspended machine that holds the workspace, under the
	// strategy retained_runtime: nothing may reap it while it is named here.
	Retained *Lease `json:"retainedRuntime,omitempty"`
}

// Validate joins every fault.
func (d Draft) Validate() error {
	err := d.Workspace.Validate()
	if d.Output != nil {
		err = errors.Join(err, d.Output.Validate())
	}
	if d.RuntimeCheckpoint != nil {
		err = errors.Join(err, d.RuntimeCheckpoint.Validate())
	}
	if d.Retained != nil {
		err = errors.Join(err, d.Retained.Validate())
	}
	return err
}

// Canonical is the draft's one spelling: drafts that mean the same have the same
// bytes.
func (d Draft) Canonical() (string, error) {
	if err := d.Validate(); err != nil {
		return "", err
	}
	if len(d.Workspace.Metadata) == 0 {
		d.Workspace.Metadata = nil
	}
	b, err := json.Marshal(d)
	return string(b), err
}

// ParseDraft reads what Canonical wrote. Anything else is refused: a damaged
// pointer must never read as an empty one.
func ParseDraft(text string) (Draft, error) {
	var d Draft
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Draft{}, fmt.Errorf("decode publication: %w", err)
	}
	if dec.More() {
		return Draft{}, errors.New("decode publication: something follows it")
	}
	if err := d.Validate(); err != nil {
		return Draft{}, fmt.Errorf("decode publication: %w", err)
	}
	return d, nil
}

// Publication is an accepted draft.
type Publication struct {
	Draft
	// Generation published it; Revision counts the publications of the session.
	Generation int64 `json:"generation"`
	Revision   int64 `json:"revision"`
}
