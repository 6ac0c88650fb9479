package sessions

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// Outputs lists the deliverables that a run has published.
func (d *Desk) Outputs(ctx context.Context, project, id string) (api.OutputList, error) {
	s, err := d.set(ctx, project, id)
	if err != nil {
		return api.OutputList{}, err
	}
	return listed(s), nil
}

// Output opens one deliverable that a run has published. Its last Read fails when
// it is damaged.
func (d *Desk) Output(ctx context.Context, project, id, path string) (api.OutputFile, io.ReadCloser, error) {
	s, err := d.set(ctx, project, id)
	if err != nil {
		return api.OutputFile{}, nil, err
	}
	return opened(ctx, s, path)
}

// Published lists what the runs of a workspace have published and prunes have left,
// newest first, whether their runs are still known or not.
func (d *Desk) Published(ctx context.Context, project, name string) (api.OutputSetList, error) {
	all, err := d.published(ctx, project, name)
	list := api.OutputSetList{Sets: make([]api.OutputSet, 0, len(all))}
	for i, p := range all {
		list.Sets = append(list.Sets, api.OutputSet{ID: p.ID, Newest: i == 0, Published: p.Time.UTC()})
	}
	return list, err
}

// PublishedFiles lists the deliverables of one of them.
func (d *Desk) PublishedFiles(ctx context.Context, project, name, id string) (api.OutputList, error) {
	s, err := d.deposit(ctx, project, name, id)
	if err != nil {
		return api.OutputList{}, err
	}
	return listed(s), nil
}

// PublishedFile opens one of these, as Output does.
func (d *Desk) PublishedFile(ctx context.Context, project, name, id, path string) (api.OutputFile, io.ReadCloser, error) {
	s, err := d.deposit(ctx, project, name, id)
	if err != nil {
		return api.OutputFile{}, nil, err
	}
	return opened(ctx, s, path)
}

func (d *Desk) published(ctx context.Context, project, name string) ([]output.Published, error) {
	scope := workspaces.Scope(project, name, "outputs")
	p, err := d.cfg.Stores.Fences.Published(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("ask what workspace %s has published: %w", name, err)
	}
	var current *session.Candidate
	if p != nil {
		current = p.Output
	}
	all, err := d.store.Published(ctx, scope, current)
	if err == nil && len(all) == 0 {
		err = api.Errorf(api.CodeNotFound, "no run in workspace %q has published outputs", name)
	}
	return all, err
}

func (d *Desk) deposit(ctx context.Context, project, name, id string) (*output.Deposit, error) {
	all, err := d.published(ctx, project, name)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.ID == id {
			return d.open(ctx, p.Candidate, name)
		}
	}
	return nil, api.Errorf(api.CodeNotFound, "workspace %s has no outputs %q, or they have been removed", name, id)
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
	return d.open(ctx, *c, r.req.Workspace)
}

func (d *Desk) open(ctx context.Context, c session.Candidate, name string) (*output.Deposit, error) {
	s, err := d.reader.Open(ctx, c)
	if errors.Is(err, claim.ErrDropped) {
		e := api.Errorf(api.CodeNotFound, "outputs %s have been removed from the store", c.ID)
		e.Hint = "a prune did not have to keep them: later runs of workspace " + name + " have published others"
		return nil, e
	}
	return s, err
}

func listed(s *output.Deposit) api.OutputList {
	list := api.OutputList{Files: make([]api.OutputFile, 0, len(s.Entries))}
	for _, e := range s.Entries {
		list.Files = append(list.Files, file(e))
	}
	return list
}

func opened(ctx context.Context, s *output.Deposit, path string) (api.OutputFile, io.ReadCloser, error) {
	for _, e := range s.Entries {
		if e.LogicalPath == path {
			r, err := s.File(ctx, e.ContentHash)
			return file(e), r, err
		}
	}
	return api.OutputFile{}, nil, api.Errorf(api.CodeNotFound, "there is no output %q", path)
}

func file(e session.OutputEntry) api.OutputFile {
	return api.OutputFile{Path: e.LogicalPath, Hash: e.ContentHash, Size: e.Size, MediaType: e.MediaType}
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
