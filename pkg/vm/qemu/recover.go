package qemu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// adoptTimeout is how long Recover waits for one machine's monitor. A machine
// that does not answer is adopted none the less: its identity is proven, and
// its watcher goes on trying.
const adoptTimeout = 3 * time.Second

// Recover implements vm.Provider. Machines are looked at side by side, so that
// a stuck one delays the others by adoptTimeout at most, or by removeTimeout when
// it has to go.
func (p *Provider) Recover(ctx context.Context) ([]vm.Machine, error) {
	if err := p.own(); err != nil {
		return nil, err
	}
	layouts, err := p.scan()
	if err != nil {
		return nil, err
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		adopted []vm.Machine
		errs    []error
	)
	kept := make(map[string]bool)
	for _, l := range layouts {
		wg.Go(func() {
			m, err := p.recoverOne(ctx, l)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				kept[string(l.Inc)] = true // what could not be removed is tried again
			}
			if m != nil {
				adopted = append(adopted, m)
				kept[string(l.Inc)] = true
			}
		})
	}
	wg.Wait()
	errs = append(errs, p.root.RemoveStrays(ctx, p.cfg.CgroupRoot, kept), p.store.Tidy(), p.collect())
	if err := errors.Join(errs...); err != nil {
		return adopted, fmt.Errorf("%w: %w", vm.ErrLeftover, err)
	}
	return adopted, nil
}

// scan lists the incarnations on disk but for those that we run already.
func (p *Provider) scan() ([]incarnation.Home, error) {
	all, empty, err := p.root.All()
	if err != nil {
		return nil, err
	}
	for _, dir := range empty {
		if err := incarnation.RemoveIfEmpty(dir); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(l incarnation.Home) bool { return p.knows(l.Inc) }), nil
}

func (p *Provider) knows(inc vm.Incarnation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.machines[inc]
	return ok
}

// recoverOne adopts or removes an incarnation.
func (p *Provider) recoverOne(ctx context.Context, l incarnation.Home) (*Machine, error) {
	log := p.cfg.Logger.With("desktop", l.ID, "incarnation", l.Inc)
	j, err := incarnation.Read(l)
	var pr *proc.Process
	if err == nil && j.Process != nil {
		pr, err = proc.Open(*j.Process)
	}
	if err != nil || pr == nil || j.Phase != incarnation.Running {
		log.Info("removing what is left of a machine", "phase", j.Phase, "reason", err)
		ctx, cancel := context.WithTimeout(ctx, removeTimeout)
		defer cancel()
		if pr != nil {
			defer pr.Close()
		}
		return nil, p.remove(ctx, l, pr, "reap/")
	}
	m := newMachine(p, l, j, pr)
	m.adopted = true
	m.attach(ctx)
	if err := p.keep(m); err != nil {
		m.release()
		pr.Close()
		return nil, err
	}
	log.Info("machine adopted", "pid", pr.Identity().PID)
	return m, nil
}

// attach gives an adopted machine its network and monitor back, as far as they
// can be had.
func (m *Machine) attach(ctx context.Context) {
	if j := m.facts(); j.Linked && m.p.cfg.Network != nil {
		n, err := m.p.openNetwork(ctx, m.lay, j.Network)
		if err != nil {
			m.log.Error("network of an adopted machine not restored", "error", err)
		}
		m.net, m.netErr = n, err
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	mon, err := qmp.Dial(ctx, m.lay.Socket(incarnation.QMP), qmp.Config{})
	if err != nil {
		m.log.Warn("adopted machine does not answer yet", "error", err)
		return
	}
	m.mon = mon
	m.resettle(ctx, mon)
}
