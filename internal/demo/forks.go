package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/sheet"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// label marks the children, with their parent's id, so that those of a
// demonstration that was cut off are found by the next one.
const label = "deskfork-demo"

// childTTL is when children end that nobody has removed, in seconds.
const childTTL = 1800

// Forked is what a demonstration of forks brought.
type Forked struct {
	Session  string // of the shop, in all of them
	SignedIn bool   // false: an earlier demonstration had signed in
	Parent   Fork
	Children []Fork // in the order of their tasks
	// Sign, Pause, Asked, Usable and Took are how long signing in took, the
	// parent stood still, the call to fork took, it took from then until the
	// last child could be used, and all of it took.
	Sign, Pause, Asked, Usable, Took time.Duration

	Sheet []byte // PNG of all pictures
}

// Fork is a desktop of the demonstration.
type Fork struct {
	ID, Name string
	File     string        // for its picture, without an ending
	Task     string        // what it did
	Proof    string        // of that, read back by exec
	Usable   time.Duration // from the call to fork on
	Done     time.Duration // its task, from then on
	Node     api.Node      // what it takes, after its task
	Picture  []byte        // PNG
}

// Forks brings desktop d to a state once, forks it five ways, does five different
// things in the children, and removes them. The parent stays where it was; so
// this may be repeated.
func Forks(ctx context.Context, c *client.Client, d *client.Desktop, say Say) (f Forked, err error) {
	began := time.Now()
	info, err := d.Get(ctx)
	if err != nil {
		return f, fmt.Errorf("look at the desktop: %w", err)
	}
	if err := sweep(ctx, c, info.ID); err != nil {
		return f, err
	}
	h := hand{d: c.Desktop(info.ID), say: say}
	if f.Session, f.SignedIn, err = h.signIn(ctx); err != nil {
		return f, fmt.Errorf("sign in: %w", err)
	}
	f.Sign = time.Since(began)
	f.Parent = Fork{ID: info.ID, Name: info.Name, File: "parent", Task: "the parent: signed in once"}
	if f.Parent.Picture, err = h.picture(ctx); err != nil {
		return f, err
	}
	defer func() {
		err = errors.Join(err, sweep(context.WithoutCancel(ctx), c, info.ID))
		f.Took = time.Since(began)
	}()
	if err := f.raise(ctx, c, info, say); err != nil {
		return f, err
	}
	if err := f.untouched(ctx, h); err != nil {
		return f, err
	}
	if err := f.measure(ctx, c); err != nil {
		return f, err
	}
	return f, f.draw()
}

// raise forks the parent and lets each child do its task.
func (f *Forked) raise(ctx context.Context, c *client.Client, parent api.Desktop, say Say) error {
	todo := tasks()
	spec := api.Fork{Count: len(todo), Name: childPrefix(parent.Name), Labels: map[string]string{}, Policy: api.Policy{TTLS: childTTL}}
	maps.Copy(spec.Labels, parent.Labels)
	spec.Labels[label] = parent.ID
	say("forking %s five ways", parent.Name)
	began := time.Now()
	children, err := c.Desktop(parent.ID).Fork(ctx, spec)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	f.Asked = time.Since(began)
	f.Children = make([]Fork, len(children))
	g, ctx := errgroup.WithContext(ctx)
	for i, child := range children {
		g.Go(func() error {
			got, err := perform(ctx, child, todo[i], f.Session, began, say)
			f.Children[i] = got
			if err != nil {
				return fmt.Errorf("child %s, which %s: %w", got.Name, todo[i].caption, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, child := range f.Children {
		f.Usable = max(f.Usable, child.Usable)
	}
	f.Pause, err = pause(context.WithoutCancel(ctx), c, parent.ID, f.Children[0].ID)
	return err
}

// childPrefix leaves room for what a fork appends.
func childPrefix(parent string) string {
	const most = 50
	return strings.TrimRight(parent[:min(len(parent), most)], "-") + "-demo"
}

// readyWithin is how long a child may take to be usable on a busy host.
const readyWithin = 2 * time.Minute

// perform waits for a child and does its task.
//
//nolint:revive // each is another thing
func perform(ctx context.Context, d *client.Desktop, t task, session string, began time.Time, say Say) (Fork, error) {
	f := Fork{ID: d.Ref(), Name: d.Ref(), File: t.name, Task: t.caption}
	info, err := d.Wait(ctx, api.StageDrawn, readyWithin)
	if err != nil {
		return f, err
	}
	f.Name, f.Usable = info.Name, time.Since(began)
	h := hand{d: d, say: func(format string, args ...any) { say(info.Name+": "+format, args...) }}
	// What the parent was is here: else the task would prove nothing.
	if got, _, err := h.content(ctx, shopSessions); err != nil || got != session {
		return f, errors.Join(err, api.Errorf(api.CodeInternal, "its session is %q, the parent's %q", got, session))
	}
	started := time.Now()
	if f.Proof, err = t.do(h, ctx, session); err != nil {
		return f, err
	}
	f.Done = time.Since(started)
	say("%s %s: %s", info.Name, t.caption, f.Proof)
	f.Picture, err = h.picture(ctx)
	return f, err
}

// untouched proves that the parent knows nothing of what its children did.
func (f *Forked) untouched(ctx context.Context, h hand) error {
	session, _, err := h.content(ctx, shopSessions)
	if err != nil {
		return err
	}
	orders, _, err := h.content(ctx, shopOrders)
	if err != nil {
		return err
	}
	if session != f.Session || orders != "" {
		return api.Errorf(api.CodeInternal, "the parent was changed by its children: session %q, was %q; orders %q", session, f.Session, orders)
	}
	list, err := h.d.Windows().List(ctx)
	if err != nil {
		return fmt.Errorf("list windows: %w", err)
	}
	if _, ok := top(list, titled(signedIn)); !ok {
		return api.Errorf(api.CodeInternal, "the parent does not show any more that %s is signed in", clerk)
	}
	f.Parent.Proof = "still signed in, session " + strings.TrimPrefix(session, clerk+" ") + ", no order"
	return nil
}

// pauseWithin is how long the host may take to tell what has happened.
const pauseWithin = 10 * time.Second

// pause asks the log of events how long the parent stood still; 0: it is not
// known there any more.
func pause(ctx context.Context, c *client.Client, parent, child string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, pauseWithin)
	defer cancel()
	for e, err := range c.Events(ctx, client.EventOptions{Desktop: parent, After: 1}) {
		if err != nil {
			return 0, fmt.Errorf("ask how long the parent stood still: %w", err)
		}
		ids, _ := e.Data["children"].([]any)
		if ms, ok := e.Data["pause_ms"].(float64); ok && slices.Contains(ids, any(child)) {
			return time.Duration(ms * float64(time.Millisecond)), nil
		}
	}
	return 0, nil
}

// measure asks what each of them takes.
func (f *Forked) measure(ctx context.Context, c *client.Client) error {
	tree, err := c.Tree(ctx)
	if err != nil {
		return fmt.Errorf("ask for the tree: %w", err)
	}
	nodes := map[string]api.Node{}
	for _, n := range tree.Nodes {
		nodes[n.ID] = n
	}
	f.Parent.Node = nodes[f.Parent.ID]
	for i := range f.Children {
		child := &f.Children[i]
		child.Node = nodes[child.ID]
		if child.Node.Parent != f.Parent.ID {
			return api.Errorf(api.CodeInternal, "the tree shows %q as the parent of %s", child.Node.Parent, child.Name)
		}
	}
	return nil
}

// draw puts the pictures onto one sheet.
func (f *Forked) draw() error {
	const mib = 1 << 20
	all := []sheet.Picture{{PNG: f.Parent.Picture, Title: f.Parent.Name + ", " + f.Parent.Task, Note: f.Parent.Proof}}
	for _, c := range f.Children {
		all = append(all, sheet.Picture{
			PNG: c.Picture, Title: c.Name + " " + c.Task,
			Note: fmt.Sprintf("usable after %.1f s, %d MiB of memory its own", c.Usable.Seconds(), c.Node.MemoryPrivate/mib),
		})
	}
	var b bytes.Buffer
	if err := sheet.Draw(&b, all); err != nil {
		return fmt.Errorf("draw the sheet: %w", err)
	}
	f.Sheet = b.Bytes()
	return nil
}

// sweepWithin bounds the removal of the children.
const sweepWithin = time.Minute

// sweep removes the children of a demonstration.
func sweep(ctx context.Context, c *client.Client, parent string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepWithin)
	defer cancel()
	list, err := c.Desktops().List(ctx, client.Filter{Labels: map[string]string{label: parent}})
	if err != nil {
		return fmt.Errorf("look for children: %w", err)
	}
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, d := range list {
		wg.Go(func() {
			if err := c.Desktops().Delete(ctx, d.ID); err != nil && !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
				errs[i] = fmt.Errorf("remove %s: %w", cmp.Or(d.Name, d.ID), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
