package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/record"
	"github.com/deskfork/deskfork/internal/host/sessions/tape"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// settlePause is the pause between two attempts to learn what became of the runs of an
// earlier process.
const settlePause = 15 * time.Second

// record is what is written down of a run.
func (r *run) record() record.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return record.Record{Run: r.copied(), Before: r.before, Outputs: r.req.Outputs, Keep: r.req.Keep, Output: r.output, Key: r.key}
}

// note writes down what counts now of a run. Where that fails only the next process
// knows less.
func (d *Desk) note(r *run) {
	if err := d.book.Put(r.record()); err != nil {
		d.cfg.Logger.Warn("run not written down; after a restart of the daemon less is known of it", "run", r.id, "err", err)
	}
}

// remember reads the runs of earlier processes. Those that had not ended are settled
// by Run.
func (d *Desk) remember() error {
	book, err := record.Open(filepath.Join(d.cfg.DataDir, runsDir))
	if err != nil {
		return err
	}
	d.book = book
	all, err := book.All()
	if err != nil {
		d.cfg.Logger.Warn("some runs are not known any more", "err", err)
	}
	for _, rec := range all {
		v := rec.Run
		r := &run{
			id: v.ID, project: v.Project, tape: tape.Again(d.cfg.Now), cancel: func(error) {}, // there is nothing to end
			req:  api.StartRun{Workspace: v.Workspace, Image: v.Image, Argv: v.Argv, Outputs: rec.Outputs, Keep: rec.Keep},
			view: v, before: rec.Before, output: rec.Output, key: rec.Key,
		}
		d.runs[r.id] = r
		if r.key != "" {
			d.keys[r.key] = r.id
		}
		if v.State != api.RunRunning {
			r.tape.Add(api.RunEvent{Type: api.RunEnd, Run: &v})
		}
	}
	return nil
}

// settles finds out what became of the runs that died with an earlier process, as soon
// as the database says so.
func (d *Desk) settles(ctx context.Context, left []*run) {
	t := time.NewTicker(cmp.Or(d.cfg.Reconcile, settlePause))
	defer t.Stop()
	for {
		left = slices.DeleteFunc(left, func(r *run) bool {
			err := d.settle(ctx, r)
			if err != nil && ctx.Err() == nil {
				d.cfg.Logger.Warn("what became of a run is not known yet", "run", r.id, "err", err)
			}
			return err == nil
		})
		if len(left) == 0 {
			d.forget()
			return
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// unsettled are runs that an earlier process has begun and not ended. It is called
// before there are any of this one.
func (d *Desk) unsettled() []*run {
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []*run
	for _, r := range d.runs {
		if r.now().State == api.RunRunning {
			left = append(left, r)
		}
	}
	return left
}

// settle says how a run ended whose process died: the pointer tells whether it had
// published. Its machine is the reconciler's, and what it stored and did not publish
// the next sweep's.
func (d *Desk) settle(ctx context.Context, r *run) error {
	p, err := d.cfg.Stores.Fences.Published(ctx, workspaces.Scope(r.project, r.req.Workspace, r.id))
	if err != nil && !errors.Is(err, session.ErrCorrupt) {
		return fmt.Errorf("ask what is published: %w", err)
	}
	if was := r.now(); p != nil && was.Generation > 0 && p.Generation == was.Generation {
		r.published(*p)
		f := fences{d: d, r: r}
		f.mark(ctx, p)
	}
	last := r.settled(p, err, d.cfg.Now())
	d.note(r)
	d.cfg.Logger.Info("run of an earlier process settled", "run", r.id, "state", last.State)
	r.tape.Add(api.RunEvent{Type: api.RunEnd, Run: &last})
	return nil
}

// settled notes the end of a run whose process died, by what the pointer says.
func (r *run) settled(p *session.Publication, damage error, now time.Time) api.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.view
	switch {
	case damage != nil:
		v.State, v.Error = api.RunFailed, api.Errorf(api.CodeInternal, "the daemon ended meanwhile, and whether this run had published cannot be read: %s", oneLine(damage))
	case v.Revision > r.before:
		v.State, v.ExitCode = api.RunCompleted, new(int)
		v.Warnings = append(v.Warnings, "the daemon ended when this was published; what was left to be done is done by its next start and the next run")
		if r.output != nil {
			v.Outputs = counted(*r.output)
		}
	case p != nil && v.Generation > 0 && p.Generation > v.Generation:
		v.State = api.RunLeaseLost
		v.Error = api.Errorf(api.CodeConflict, "the daemon ended meanwhile, and others have published since: whether this run had is not known")
		v.Error.Hint = "look at the log of workspace " + r.req.Workspace
	default:
		v.State = api.RunLeaseLost
		v.Error = api.Errorf(api.CodeGuestUnavail, "the daemon ended meanwhile: nothing since the last publication counts")
		v.Error.Hint = "run it again"
	}
	v.Ended = now.UTC()
	if v.State != api.RunCompleted || r.req.Keep != api.KeepMachine {
		v.Desktop = "" // it goes
	}
	return r.copied()
}
