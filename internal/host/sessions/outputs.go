package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// Outputs lists the deliverables that a run has published.
func (d *Desk) Outputs(ctx context.Context, project, id string) (api.OutputList, error) {
	s, err := d.set(ctx, project, id)
	if err != nil {
		return api.OutputList{}, err
	}
	list := api.OutputList{Files: make([]api.OutputFile, 0, len(s.Entries))}
	for _, e := range s.Entries {
		list.Files = append(list.Files, api.OutputFile{Path: e.LogicalPath, Hash: e.ContentHash, Size: e.Size, MediaType: e.MediaType})
	}
	return list, nil
}

// Output opens one deliverable that a run has published. Its last Read fails when
// it is damaged.
func (d *Desk) Output(ctx context.Context, project, id, path string) (api.OutputFile, io.ReadCloser, error) {
	s, err := d.set(ctx, project, id)
	if err != nil {
		return api.OutputFile{}, nil, err
	}
	for _, e := range s.Entries {
		if e.LogicalPath == path {
			r, err := s.File(ctx, e.ContentHash)
			return api.OutputFile{Path: e.LogicalPath, Hash: e.ContentHash, Size: e.Size, MediaType: e.MediaType}, r, err
		}
	}
	return api.OutputFile{}, nil, api.Errorf(api.CodeNotFound, "run %s has no output %q", id, path)
}

// set is what a run has published, held so that no sweep takes it meanwhile.
func (d *Desk) set(ctx context.Context, project, id string) (*output.Deposit, error) {
	r, err := d.find(project, id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	c := r.output
	r.mu.Unlock()
	if c == nil {
		return nil, api.Errorf(api.CodePrecondition, "run %s has published no outputs", id)
	}
	s, err := d.reader.Open(ctx, *c)
	if errors.Is(err, claim.ErrDropped) {
		e := api.Errorf(api.CodeNotFound, "the outputs of run %s have been removed from the store", id)
		e.Hint = "a prune did not have to keep them: later runs of workspace " + r.req.Workspace + " have published others"
		return nil, e
	}
	return s, err
}

// Prune removes outputs that a policy does not keep, of all projects, and inputs that
// no run needs. What the newest publication of a workspace names stays, and so does
// what is being stored, published, read or put into a machine.
func (d *Desk) Prune(ctx context.Context, req api.PruneOutputs) (api.PrunedOutputs, error) {
	policy := retain.Policy{Last: req.Last, Hourly: req.Hourly, Daily: req.Daily, Weekly: req.Weekly, Monthly: req.Monthly}
	out, err := d.store.Prune(ctx, policy, d.cfg.Host.Workspaces.Publications, req.DryRun)
	if err != nil {
		return api.PrunedOutputs{}, fmt.Errorf("outputs: %w", err)
	}
	in, err := d.inputs.Prune(ctx, req.DryRun)
	if err != nil {
		return api.PrunedOutputs{}, fmt.Errorf("outputs are done, inputs are not: %w", err)
	}
	return api.PrunedOutputs{
		Kept: out.Kept, Dropped: some(out.Dropped), Spared: some(out.Spared), Missing: some(out.Missing),
		Inputs: len(in.Dropped), Objects: out.Objects + in.Objects, Bytes: out.Bytes + in.Bytes,
	}, nil
}

// some is a list that is never null.
func some(list []string) []string { return append([]string{}, list...) }
