// Package archive moves the files of workspaces in and out as tar, and tells two
// of them apart. The file systems in workspaces are foreign bytes that the host
// never reads itself: the guest of a throw-away desktop does, which has no network
// and lives as long as the call.
package archive

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/tree"
)

// Label is that of throw-away desktops; its value is the call. A desktop that has
// it is removed when the host starts: the call has ended with the run before.
const Label = "deskfork.throw-away"

const (
	// longest is when a throw-away desktop goes that nobody has removed.
	longest = 24 * time.Hour
	// removeLimit bounds its removal.
	removeLimit = 2 * time.Minute
)

// Desktops makes and removes desktops. *host.Host does.
type Desktops interface {
	Create(ctx context.Context, project string, req api.CreateDesktop, key string) (api.Desktop, error)
	Wait(ctx context.Context, project, ref string, stage api.Stage) (api.Desktop, error)
	Guest(ctx context.Context, project, ref string) (*live.Desktop, error)
	Delete(ctx context.Context, project, ref string) error
}

// Workspaces keeps checkpoints. *workspaces.Desk does.
type Workspaces interface {
	Manifest(ctx context.Context, project, word string) (*workspace.Manifest, error)
	// Vacant refuses a name whose workspace has a checkpoint already.
	Vacant(ctx context.Context, project, name string) error
	Checkpoint(ctx context.Context, project, desktop string, req api.CreateCheckpoint, key string) (api.Checkpoint, error)
}

// Desk is the use cases. All members are required. Safe for concurrent use.
type Desk struct {
	Desktops   Desktops
	Workspaces Workspaces
	Logger     *slog.Logger
}

// Export writes the files of a checkpoint, W or W@CHECKPOINT, as tar in POSIX's
// format: owners, modes, times, extended attributes, ACLs and holes as they are,
// sorted by name. An error says that what was written is not whole.
func (d *Desk) Export(ctx context.Context, project, word, image string, w io.Writer) error {
	m, err := d.Workspaces.Manifest(ctx, project, word)
	if err != nil {
		return err
	}
	return d.with(ctx, project, spec("export", image, word, m), func(ctx context.Context, l *live.Desktop, _ string) error {
		return pack(ctx, l, w)
	})
}

// Import publishes the files of a tar in a workspace, which is made at need. One
// that has a checkpoint keeps it, unless it shall be replaced.
func (d *Desk) Import(ctx context.Context, project, name string, req api.ImportWorkspace, r io.Reader) (made api.Checkpoint, err error) {
	if !req.Replace {
		if err := d.Workspaces.Vacant(ctx, project, name); err != nil {
			return made, err
		}
	}
	s := spec("import", req.Image, "", nil)
	s.WorkspaceMiB = req.SizeMiB
	err = d.with(ctx, project, s, func(ctx context.Context, l *live.Desktop, id string) error {
		if err := unpack(ctx, l, r); err != nil {
			return err
		}
		made, err = d.Workspaces.Checkpoint(ctx, project, id, api.CreateCheckpoint{Workspace: name, Replace: req.Replace}, "")
		return err
	})
	return made, err
}

// Comparison is of two checkpoints, each W or W@CHECKPOINT.
type Comparison struct{ Before, After, Image string }

// Diff calls each for every file that is not the same in two checkpoints, sorted,
// until it fails.
func (d *Desk) Diff(ctx context.Context, project string, of Comparison, each func(api.FileDifference) error) error {
	words := [2]string{of.Before, of.After}
	var all [2]*workspace.Manifest
	for i, word := range words {
		var err error
		if all[i], err = d.Workspaces.Manifest(ctx, project, word); err != nil {
			return err
		}
	}
	if all[0].Content() == all[1].Content() {
		return nil // every byte of the disks is the same
	}
	work, ctx := errgroup.WithContext(ctx)
	var sides [2]*io.PipeReader
	for i, word := range words {
		from, to := io.Pipe()
		sides[i] = from
		work.Go(func() error {
			err := d.with(ctx, project, spec("diff", of.Image, word, all[i]), func(ctx context.Context, l *live.Desktop, _ string) error {
				return pack(ctx, l, to)
			})
			to.CloseWithError(err) // nil: the end
			return err
		})
	}
	work.Go(func() error {
		err := tree.Diff(tree.NewReader(ctx, sides[0]), tree.NewReader(ctx, sides[1]), func(c tree.Change) error { return each(difference(c)) })
		for _, s := range sides {
			if err == nil { // what pads the end
				_, err = io.Copy(io.Discard, s)
			}
			_ = s.CloseWithError(err) // who writes ends; it never fails
		}
		return err
	})
	return work.Wait()
}

// spec is a throw-away desktop; with a manifest that checkpoint is in it.
func spec(call, image, word string, m *workspace.Manifest) api.CreateDesktop {
	s := api.CreateDesktop{
		Name: call + "-" + token.NewID('t'), Image: image, Network: string(vm.NetworkNone), Labels: map[string]string{Label: call},
		Policy: api.Policy{TTLS: int(longest.Seconds())},
	}
	if m != nil { // what the name stands for may change until it starts
		name, _, _ := strings.Cut(word, "@")
		s.Workspace = name + "@" + m.String()
	}
	return s
}

// with runs fn with a desktop that is there for it alone, and removes that
// whatever happens.
func (d *Desk) with(ctx context.Context, project string, s api.CreateDesktop, fn func(ctx context.Context, l *live.Desktop, id string) error) error {
	v, err := d.Desktops.Create(ctx, project, s, "")
	if err != nil {
		return err
	}
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		if err := d.Desktops.Delete(rctx, project, v.ID); err != nil {
			d.Logger.Error("throw-away desktop not removed; it goes by itself", "desktop", v.ID, "name", v.Name, "err", err)
		}
	}()
	if _, err := d.Desktops.Wait(ctx, project, v.ID, api.StageDrawn); err != nil {
		return fmt.Errorf("start desktop %s: %w", v.Name, err)
	}
	l, err := d.Desktops.Guest(ctx, project, v.ID)
	if err != nil {
		return err
	}
	return fn(ctx, l, v.ID)
}

func difference(c tree.Change) api.FileDifference {
	e := c.After
	out := api.FileDifference{Change: api.DifferenceChanged, Fields: c.Fields}
	switch {
	case c.Before == nil:
		out.Change = api.DifferenceAdded
	case c.After == nil:
		e, out.Change = c.Before, api.DifferenceRemoved
	}
	out.Path, out.Kind = e.Path, e.Kind
	if c.Before != nil {
		out.SizeBefore = c.Before.Size
	}
	if c.After != nil {
		out.Size = c.After.Size
	}
	return out
}
