package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/request"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Fork begins children of the present instant of a desktop, which goes on. It
// answers when the instant is sealed; the children start side by side, and one
// that fails says why. A repeated key answers the children that it made.
func (h *Host) Fork(ctx context.Context, project, ref string, req api.Fork, key string) ([]api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return nil, err
	}
	if err := request.Fork(req); err != nil {
		return nil, err
	}
	k, err := once.Key(project, key, "fork "+ref, req)
	if err != nil {
		return nil, err
	}
	var made []api.Desktop
	ids, err := h.keys.Do(ctx, k, func() (string, error) {
		var err error
		made, err = h.fork(ctx, project, ref, req, k)
		return "", err
	})
	if err != nil || made != nil {
		return made, err
	}
	for id := range strings.SplitSeq(ids, ",") {
		v, err := h.Desktop(ctx, project, id)
		if err != nil {
			return nil, err
		}
		made = append(made, v)
	}
	return made, nil
}

func (h *Host) fork(ctx context.Context, project, ref string, req api.Fork, key *store.Key) ([]api.Desktop, error) {
	parent, err := h.find(project, ref)
	if err != nil {
		return nil, err
	}
	row := parent.Row()
	_, letGo, err := h.Shelf.Hold(ctx, row.ImageDigest)
	if err != nil {
		return nil, err
	}
	defer letGo()
	n := cmp.Or(req.Count, 1)
	for i := range n { // before anything stands still for it
		if name := childName(req, n, i); name != "" {
			if _, err := h.find(project, name); err == nil {
				return nil, fmt.Errorf("fork desktop %s as %s: %w", row.Name, name, store.ErrTaken)
			}
		}
	}
	release, err := h.reserveClones(parent, n)
	if err != nil {
		return nil, err
	}
	instant, err := parent.Instant(ctx)
	if err != nil {
		release()
		return nil, fault.At("snapshot", err)
	}
	rows := make([]store.Desktop, n)
	for i := range rows {
		rows[i] = h.child(instant.Sealed, req, childName(req, n, i))
	}
	if err := h.store.Insert(ctx, key, rows...); err != nil {
		instant.LetGo()
		release()
		return nil, err
	}
	ids := make([]string, n)
	for i, r := range rows {
		ids[i] = r.ID
	}
	data := map[string]any{"children": ids, "pause_ms": float64(instant.Pause.Microseconds()) / 1000}
	if instant.Slow != "" {
		data["slow"] = instant.Slow
	}
	parent.Publish(event.TypeForked, data)
	return h.raise(rows, instant, release) //nolint:contextcheck // an actor lives under the host's own context
}

// raise spawns the children of an instant, and lets go of it, and of what was
// reserved, once the last of them does not need it any more.
func (h *Host) raise(rows []store.Desktop, instant desk.Instant, release func()) ([]api.Desktop, error) {
	s, err := h.env.Snapshotter()
	if err != nil {
		return nil, err
	}
	var cloning, starting atomic.Int64
	cloning.Store(int64(len(rows)))
	starting.Store(int64(len(rows)))
	cloned := func() {
		if cloning.Add(-1) == 0 {
			instant.LetGo()
		}
	}
	started := func() {
		if starting.Add(-1) == 0 {
			release()
		}
	}
	made := make([]api.Desktop, 0, len(rows))
	var failed error
	for _, row := range rows {
		d := desk.New(h.env, row, nil)
		d.Publish(event.TypeCreated, map[string]any{"name": row.Name, "image": row.ImageDigest, "parent": row.Parent})
		err := h.spawn(d, func(ctx context.Context) error {
			defer started()
			return d.Clone(ctx, *row.Source, s.Clone, cloned)
		})
		if err != nil { // the host stops; the next run buries the row
			failed = err
			cloned()
			started()
			continue
		}
		made = append(made, d.View())
	}
	if failed != nil {
		return nil, failed
	}
	return made, nil
}

// reserveClones reserves for n clones of a desktop, or for none. Each begins with
// all that the desktop has changed; half of its memory at most, for what has
// changed more becomes a template, which is mapped.
func (h *Host) reserveClones(parent *desk.Desktop, n int) (release func(), err error) {
	v := measure(parent)
	shape, _ := vm.ShapeNamed(v.Shape)
	need := admission.Need{
		OwnMiB: min(v.MemoryPrivate>>20, int64(shape.MemoryMiB)/2), DiskMiB: v.WorkspaceMiB, Clone: true,
	}
	var all []func()
	release = func() {
		for _, fn := range all {
			fn()
		}
	}
	for range n {
		one, err := h.ledger.Reserve(need)
		if err != nil {
			release()
			return nil, fault.At(string(api.StageAdmission), err)
		}
		all = append(all, one)
	}
	return release, nil
}

// childName is the name of a child; empty: its id.
func childName(req api.Fork, n, i int) string {
	if req.Name == "" || n == 1 {
		return req.Name
	}
	return fmt.Sprintf("%s-%d", req.Name, i+1)
}

// child is a desktop that goes on from an instant of another one.
func (h *Host) child(sealed store.Sealed, req api.Fork, name string) store.Desktop {
	src := sealed.Source
	v := h.descendant(sealed.Desktop, name)
	v.Origin, v.Parent, v.Snapshot = api.OriginFork, sealed.Desktop.ID, ""
	if req.Labels != nil {
		v.Labels = maps.Clone(req.Labels)
	}
	v.Env = request.Merged(v.Env, req.Env)
	policy := sealed.Desktop.Policy
	if req.Policy != (api.Policy{}) {
		policy = req.Policy
	}
	setPolicy(&v, policy)
	return store.Desktop{Desktop: v, LinkToken: token.New(), GuestUser: sealed.GuestUser, Source: &src, Attached: sealed.Attached}
}

// descendant is a new desktop like another one was.
func (h *Host) descendant(was api.Desktop, name string) api.Desktop {
	now := h.cfg.Now().UTC()
	v := was
	v.ID = token.NewID('d')
	v.Name = cmp.Or(name, v.ID)
	v.Labels, v.Env = maps.Clone(was.Labels), maps.Clone(was.Env)
	v.State, v.Failure, v.OriginReason, v.Adopted = api.StateStarting, nil, "", false
	v.Incarnation, v.Created, v.Started = token.NewID('i'), now, now
	v.Stages = []api.StageTime{{Stage: api.StageAdmission, Reached: now}}
	v.Parent, v.Snapshot, v.CameFrom = "", "", ""
	v.MemoryPrivate, v.DiskPrivate = 0, 0
	return v
}
