// Package qemu runs machines in QEMU processes of this host, one process an
// incarnation, and finds them again after a restart.
//
// # Identity and journal
//
// An incarnation is journalled before anything of it exists, and its journal
// goes last. Its process is known by a UUID on its command line, its pid and
// its start time, checked behind a pidfd: a recycled pid is never signalled.
// Recover adopts exactly the machines that Create had handed out and that
// still run, and removes every trace of all others.
//
// # Memory
//
// RAM is a sparse file of the incarnation mapped private (share=off). The file
// stays empty: what the guest writes is anonymous memory of the process, so
// /proc/PID/pagemap tells changed pages from untouched ones, a plain boot can
// be forked by the same recipe as a clone (its template is the empty file),
// and guest memory is never written back to the host's disk.
//
// # Snapshots, clones, forks
//
// One mechanism for all: package seal takes the instant of a running machine
// into package store, package revive gives it to a QEMU that waits. A clone maps
// the memory of a template (package graft) and gets what differs written over it
// (package pages); deltas are always relative to the template that is mapped, so
// forks of forks stay one level deep in memory. Disks form chains of overlays in
// the store, which package flatten shortens. What a machine stands on is in its
// journal, what a snapshot stands on in its description, and the store keeps
// exactly that.
//
// A journal with a mark of a seal belongs to a machine whose vCPUs may stand
// still for us: whoever finds it lets the machine go on.
//
// # Locks
//
// Provider.mu guards the table of machines and is never held across I/O.
// Machine.mu guards a machine's state and is never held across I/O, and never
// taken before Provider.mu. Machine.turn is the right to stop, seal and change a
// machine; Machine.journalMu is held while its journal is written, before mu.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/spawn"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// Provider implements vm.Provider.
type Provider struct {
	cfg     Config
	root    incarnation.Root
	tools   *disk.Blanks
	spawner *spawn.Spawner
	store   *store.Store

	life   context.Context // of the watchers; ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // watchers

	capsMu sync.Mutex // held while probing
	caps   *vm.Capabilities

	mu       sync.Mutex
	locks    []*os.File                  // exclusive right to our directories
	machines map[vm.Incarnation]*Machine // nil value: being created
	closed   bool
}

var _ vm.Provider = (*Provider)(nil)

// New returns a provider; it starts and touches nothing.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure qemu provider: %w", err)
	}
	cfg.fill()
	life, cancel := context.WithCancel(context.Background())
	return &Provider{
		cfg: cfg, root: incarnation.Root{Data: cfg.DataDir, Runtime: cfg.RuntimeDir, User: cfg.User},
		tools: &disk.Blanks{
			Tools: disk.Tools{QEMUImg: cfg.QEMUImg, Mke2fs: cfg.Mke2fs}, Dir: filepath.Join(cfg.DataDir, incarnation.Blanks),
		},
		spawner: &spawn.Spawner{
			Program: cfg.QEMU, Credential: cfg.User.Credential(), OOMScoreAdj: cfg.OOMScoreAdj, Logger: cfg.Logger,
		},
		store: store.New(filepath.Join(cfg.DataDir, incarnation.Templates), cfg.User != nil),
		life:  life, cancel: cancel,
		machines: make(map[vm.Incarnation]*Machine),
	}, nil
}

// Close lets go of all machines without ending them: a later provider adopts
// them. Their networks close with us. Machines must not be used any more.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disown()
	return nil
}

// own takes the data and socket directories for this process, once. The kernel
// gives them back when the process ends, however it ends.
func (p *Provider) own() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if len(p.locks) > 0 {
		return nil
	}
	for _, dir := range []string{filepath.Join(p.cfg.DataDir, incarnation.Desktops), p.root.Sockets()} {
		f, err := p.ownDir(dir)
		if err != nil {
			p.disown()
			return err
		}
		p.locks = append(p.locks, f)
	}
	return nil
}

func (p *Provider) ownDir(dir string) (*os.File, error) {
	if err := p.root.MakeShared(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, incarnation.Lock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock directory %s: another daemon uses it; stop that one or choose another directory: %w", dir, err)
	}
	return f, nil
}

func (p *Provider) disown() {
	for _, f := range p.locks {
		// A child between fork and exec holds the file too: closing alone would
		// leave it locked for that moment.
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		f.Close()
	}
	p.locks = nil
}

var errClosed = errors.New("qemu provider is closed")

// reserve makes inc known, or says that it is.
func (p *Provider) reserve(inc vm.Incarnation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.machines[inc]; ok {
		return fmt.Errorf("incarnation %s: %w", inc, vm.ErrExists)
	}
	p.machines[inc] = nil
	return nil
}

func (p *Provider) forget(inc vm.Incarnation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.machines, inc)
}

// keep puts a machine into the table and starts its watcher.
func (p *Provider) keep(m *Machine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	p.machines[m.lay.Inc] = m
	p.wg.Go(func() { m.watch(p.life) }) // awaited by Close
	return nil
}

// beside runs fn, which ends with p.life, unless the provider is closed. Close
// waits for it.
func (p *Provider) beside(fn func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.wg.Go(fn)
	}
	return !p.closed
}

// Usage is what the machines of a provider hold.
type Usage struct {
	Machines    int
	MemoryBytes int64 // private memory of the processes now
	DiskBytes   int64 // allocated by their files now
	// PromisedMemory and PromisedDisk are what they may grow to, in bytes.
	PromisedMemory int64
	PromisedDisk   int64
}

// Usage sums over the machines that have not been destroyed, for admission.
func (p *Provider) Usage() Usage {
	p.mu.Lock()
	machines := make([]*Machine, 0, len(p.machines))
	for _, m := range p.machines {
		if m != nil {
			machines = append(machines, m)
		}
	}
	p.mu.Unlock()
	var u Usage
	for _, m := range machines {
		info := m.Info()
		u.Machines++
		u.MemoryBytes += info.MemoryBytes
		u.DiskBytes += info.DiskBytes
		u.PromisedDisk += m.facts().DiskMiB << 20
		if info.State != vm.StateExited {
			u.PromisedMemory += int64(info.Shape.MemoryMiB) << 20
		}
	}
	return u
}

// remove takes away all of an incarnation.
func (p *Provider) remove(ctx context.Context, l incarnation.Home, known *proc.Process, trace string) error {
	return incarnation.Remove(ctx, l, known, p.cfg.CgroupRoot, func(step string) { p.cfg.Trace(trace + step) })
}
