package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Pool lends desktops to tests, each to one test at a time.
type Pool struct {
	free   chan *client.Desktop
	turn   chan struct{} // holds one token: whoever has it takes
	failed chan struct{} // closed when a desktop could not be created
	made   sync.WaitGroup

	mu   sync.Mutex
	all  []*client.Desktop // guarded by mu
	errs []error           // guarded by mu
}

// NewPool creates a desktop for each of specs, all at once, and returns when
// one of them is drawn; the others are lent as they come. ctx bounds them all.
// Desktops that an earlier run has left are deleted.
func NewPool(ctx context.Context, d *Daemon, specs ...api.CreateDesktop) (*Pool, error) {
	left, err := d.Client.Desktops().List(ctx, client.Filter{})
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if err := d.Client.Desktop(l.ID).Delete(ctx); err != nil {
			return nil, fmt.Errorf("delete desktop %s of an earlier run: %w", l.Name, err)
		}
	}
	p := &Pool{free: make(chan *client.Desktop, len(specs)), turn: make(chan struct{}, 1), failed: make(chan struct{})}
	p.turn <- struct{}{}
	for _, spec := range specs {
		p.made.Go(func() {
			desk, err := d.Client.Desktops().Create(ctx, spec, client.Until(api.StageDrawn), client.Within(BootTimeout))
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				if len(p.errs) == 0 {
					close(p.failed)
				}
				p.errs = append(p.errs, fmt.Errorf("create desktop %s: %w", spec.Name, err))
				return
			}
			p.all = append(p.all, desk)
			p.free <- desk
		})
	}
	select {
	case desk := <-p.free:
		p.free <- desk
		return p, nil
	case <-p.failed:
		return nil, p.Close(ctx)
	}
}

// Take waits for n desktops that nobody has. Who asks for several gets the next
// ones that come back, before anybody who asks later.
func (p *Pool) Take(ctx context.Context, n int) ([]*client.Desktop, error) {
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a desktop: %w", ctx.Err())
	}
	var taken []*client.Desktop
	for range n {
		select {
		case desk := <-p.free:
			taken = append(taken, desk)
		case <-p.failed:
			p.Give(taken...)
			return nil, errors.New("a desktop of the pool could not be created")
		case <-ctx.Done():
			p.Give(taken...)
			return nil, fmt.Errorf("wait for a desktop: %w", ctx.Err())
		}
	}
	return taken, nil
}

// Give returns what Take gave.
func (p *Pool) Give(desks ...*client.Desktop) {
	for _, d := range desks {
		p.free <- d
	}
}

// Close deletes the desktops. It returns why any could not be created or
// deleted.
func (p *Pool) Close(ctx context.Context) error {
	p.made.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, desk := range p.all {
		if err := desk.Delete(ctx); err != nil {
			p.errs = append(p.errs, fmt.Errorf("delete desktop %s: %w", desk.Ref(), err))
		}
	}
	p.all = nil
	return errors.Join(p.errs...)
}
