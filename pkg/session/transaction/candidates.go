package transaction

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/session"
)

// seal makes the runtime checkpoint, if one is planned. An optional one that cannot
// be made is left out.
func (r *run) seal(ws session.Candidate) (*session.RuntimeCheckpoint, error) {
	if r.plan.RuntimeCheckpoint == "" {
		return nil, nil
	}
	want := session.RuntimeSeal{
		Tenure: r.fence.Tenure, Lease: *r.lease, Kind: r.plan.RuntimeCheckpoint, WorkspaceRevision: ws.Revision,
		HarnessVersion: r.plan.Driver.HarnessVersion(), RuntimeIdentity: r.plan.Driver.RuntimeIdentity(),
	}
	c, err := call(r, "create runtime checkpoint", func(ctx context.Context) (session.RuntimeCheckpoint, error) {
		return r.h.Ports.RuntimeCheckpoints.Create(ctx, want)
	}, nil)
	if err == nil {
		err = verify(c, want)
	}
	if cause := r.aborted(); cause != nil {
		return nil, errors.Join(err, cause)
	}
	if err == nil {
		return &c, nil
	}
	if r.plan.RuntimeCheckpointNeed == session.Required {
		return nil, err
	}
	r.warn("create runtime checkpoint", err)
	return nil, nil
}

// verify compares a runtime checkpoint with what was asked for.
func verify(c session.RuntimeCheckpoint, want session.RuntimeSeal) error {
	expected := session.RuntimeCheckpoint{
		Provider: want.Lease.Provider, CheckpointID: c.CheckpointID, Kind: want.Kind, SourceRuntimeID: want.Lease.RuntimeID,
		SessionID: want.Tenure.Scope.Session, WorkGeneration: want.Tenure.Generation, WorkspaceRevision: want.WorkspaceRevision,
		HarnessVersion: want.HarnessVersion, RuntimeIdentity: want.RuntimeIdentity,
	}
	if c != expected {
		return errors.New("create runtime checkpoint: what came is of another machine, session, generation, revision or program than asked for")
	}
	return c.Validate()
}

// deliver makes the outputs a candidate.
func (r *run) deliver(stage session.Stage) (*session.Candidate, error) {
	t, outputs := r.fence.Tenure, r.h.Ports.Outputs
	entries, err := call(r, "collect outputs", func(ctx context.Context) ([]session.OutputEntry, error) {
		return outputs.Collect(ctx, t, *r.outputs, *r.lease)
	}, nil)
	if err == nil {
		err = checkEntries(entries)
	}
	if err := r.checked("collect outputs", err); err != nil {
		return nil, err
	}
	c, err := call(r, "finalize outputs", func(ctx context.Context) (session.Candidate, error) {
		return outputs.Finalize(ctx, session.OutputSet{Tenure: t, Binding: *r.outputs, Entries: entries, Key: t.Key(stage)})
	}, nil)
	if err == nil {
		err = c.Validate()
	}
	if err := r.checked("finalize outputs", err); err != nil {
		return nil, err
	}
	return &c, nil
}

// checkEntries refuses names that could leave the folder, doubles and too much.
func checkEntries(entries []session.OutputEntry) error {
	if len(entries) > session.MaxOutputFiles {
		return fmt.Errorf("collect outputs: %d files, at most %d are taken", len(entries), session.MaxOutputFiles)
	}
	seen := make(map[string]bool, len(entries))
	var total int64
	for _, e := range entries {
		p := e.LogicalPath
		switch {
		case p == "" || p == "." || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../"),
			!utf8.ValidString(p), strings.ContainsAny(p, "\x00\\"):
			return fmt.Errorf("collect outputs: %q is no plain relative path", p)
		case seen[p]:
			return fmt.Errorf("collect outputs: %q came twice", p)
		case e.ContentHash == "" || e.Size < 0:
			return fmt.Errorf("collect outputs: %q has hash %q and size %d", p, e.ContentHash, e.Size)
		case e.Size > session.MaxOutputBytes-total:
			return fmt.Errorf("collect outputs: more than %d bytes", session.MaxOutputBytes)
		}
		seen[p] = true
		total += e.Size
	}
	return nil
}
