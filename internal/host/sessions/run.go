package sessions

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/request"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/sessions/tape"
	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// remembered is how many runs that have ended are known.
const remembered = 100

// run is one run of a command.
type run struct {
	id      string
	project string
	req     api.StartRun
	tape    *tape.Tape
	cancel  context.CancelCauseFunc

	mu        sync.Mutex
	view      api.Run            // guarded by mu
	cancelled bool               // guarded by mu; somebody asked for its end
	exited    bool               // guarded by mu; the command ended well
	left      bool               // guarded by mu; processes that it started live on
	output    *session.Candidate // guarded by mu; what it has published
	before    int64              // guarded by mu; the revision that it found
	key       string             // of the call that began it
}

// Start begins a run and answers at once. A repeated key answers the run that it
// began.
func (d *Desk) Start(ctx context.Context, project string, req api.StartRun, key string) (api.Run, error) { //nolint:contextcheck // a run lives under the desk's own context
	if err := request.Run(req); err != nil {
		return api.Run{}, err
	}
	k, err := once.Key(project, key, "run", req)
	if err != nil {
		return api.Run{}, err
	}
	if _, err := d.cfg.Host.Shelf.Get(ctx, req.Image); err != nil {
		return api.Run{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var known string
	if k != nil {
		known = project + "\n" + k.Key + "\n" + hex.EncodeToString(k.Hash)
		if r := d.runs[d.keys[known]]; r != nil {
			return r.now(), nil
		}
	}
	host := d.running
	if host == nil || host.Err() != nil {
		return api.Run{}, api.Errorf(api.CodeGuestUnavail, "the host is starting or stopping; try again")
	}
	r := &run{id: token.NewID('r'), project: project, req: req, tape: tape.New(d.cfg.Now)}
	r.view = api.Run{
		ID: r.id, Workspace: req.Workspace, Project: project, Image: req.Image, Argv: slices.Clone(req.Argv),
		State: api.RunRunning, Created: d.cfg.Now().UTC(),
	}
	r.key = known
	if err := d.book.Put(r.record()); err != nil {
		return api.Run{}, err
	}
	d.runs[r.id] = r
	if known != "" {
		d.keys[known] = r.id
	}
	rctx, cancel := context.WithCancelCause(host)
	r.cancel = cancel
	d.working.Go(func() {
		defer cancel(nil)
		d.do(rctx, r)
		d.forget()
	})
	return r.now(), nil
}

// forget drops the oldest runs that have ended.
func (d *Desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	ended := d.sorted(func(v api.Run) bool { return v.State != api.RunRunning })
	for _, v := range ended[min(remembered, len(ended)):] {
		if err := d.book.Remove(v.ID); err != nil {
			d.cfg.Logger.Warn("a run is known for longer than it should be", "run", v.ID, "err", err)
		}
		delete(d.runs, v.ID)
	}
	for key, id := range d.keys {
		if d.runs[id] == nil {
			delete(d.keys, key)
		}
	}
}

// sorted lists runs, newest first. d.mu is held.
func (d *Desk) sorted(want func(api.Run) bool) []api.Run {
	list := []api.Run{}
	for _, r := range d.runs {
		if v := r.now(); want(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b api.Run) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list
}

// List lists the runs of a project that are known, newest first.
func (d *Desk) List(project string) []api.Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sorted(func(v api.Run) bool { return v.Project == project })
}

// Get describes a run.
func (d *Desk) Get(project, id string) (api.Run, error) {
	r, err := d.find(project, id)
	if err != nil {
		return api.Run{}, err
	}
	return r.now(), nil
}

// Cancel asks a run to end, and answers at once. One that has ended stays as it is.
func (d *Desk) Cancel(project, id string) (api.Run, error) {
	r, err := d.find(project, id)
	if err != nil {
		return api.Run{}, err
	}
	r.mu.Lock()
	r.cancelled = true
	r.mu.Unlock()
	r.cancel(context.Canceled)
	return r.now(), nil
}

// Follow reads what a run tells, behind the event of that number. Close the reader.
func (d *Desk) Follow(project, id string, after uint64) (*tape.Reader, error) {
	r, err := d.find(project, id)
	if err != nil {
		return nil, err
	}
	return r.tape.Read(after), nil
}

func (r *run) now() api.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copied()
}

// copied is the view, which nobody changes any more. r.mu is held.
func (r *run) copied() api.Run {
	v := r.view
	v.Argv, v.Warnings = slices.Clone(v.Argv), slices.Clone(v.Warnings)
	return v
}

// leaves notes that processes of the command live on.
func (r *run) leaves() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
}

func (r *run) hasLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// step notes what the run does.
func (r *run) step(name string) {
	r.mu.Lock()
	r.view.Step = name
	r.mu.Unlock()
	r.tape.Add(api.RunEvent{Type: api.RunStep, Step: name})
}

// claimed notes whose turn it is, and what was published before.
func (r *run) claimed(t session.Tenure, last *session.Publication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last != nil {
		r.before = last.Revision
	}
	r.view.Generation, r.view.Desktop = t.Generation, sandbox.Name(session.NewIntent(t).ID)
}

// published notes what counts now.
func (r *run) published(p session.Publication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Revision, r.view.Kept = p.Revision, nil
	if p.RuntimeCheckpoint != nil {
		ref := vault.ParseRef(p.RuntimeCheckpoint.CheckpointID)
		r.view.Kept = &api.RuntimeCheckpoint{ID: ref.ID, Portable: ref.Portable()}
	}
	if r.req.Outputs {
		r.output = p.Output
	}
}
