// Package hosttest runs a host against a provider of machines that exist in
// memory and a guestd in process, for tests of the host and of its doors.
package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// Provider keeps machines in memory. They outlive the host, as real ones do. A
// clone has a guest of its own, which takes the token of the sealed one; what ran
// in that one does not run in it.
type Provider struct {
	*vmtest.Provider

	tb testing.TB

	mu       sync.Mutex
	hooks    hooks                        // guarded by mu
	machines map[*vmtest.Machine]*Machine // guarded by mu
	tokens   map[vm.SnapshotID]string     // guarded by mu; of the guests that were sealed
}

type hooks struct {
	create   func(context.Context, vm.Spec) error
	snapshot func(context.Context, vm.SnapshotSpec) error
	clone    func(context.Context, vm.CloneSpec) error
	sealed   func(context.Context)
	cloned   func(context.Context)
	guestOf  func(vm.Spec) guesttest.Config
	born     func(*Machine)
}

var (
	_ vm.Provider    = (*Provider)(nil)
	_ vm.Snapshotter = (*Provider)(nil)
	_ vm.Porter      = (*Provider)(nil)
)

// NewProvider makes a provider without machines.
func NewProvider(tb testing.TB) *Provider {
	tb.Helper()
	p := &Provider{tb: tb, machines: make(map[*vmtest.Machine]*Machine), tokens: make(map[vm.SnapshotID]string)}
	dir := tb.TempDir() // of all machines
	if err := os.WriteFile(filepath.Join(dir, "serial.log"), []byte("booting\nlogin:\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	p.Provider = vmtest.New(vmtest.Config{
		Accelerator: vm.AccelKVM, Dir: dir,
		Create: func(ctx context.Context, s vm.Spec) error {
			if fn := p.hook().create; fn != nil {
				return fn(ctx, s)
			}
			return nil
		},
		Snapshot: func(ctx context.Context, m *vmtest.Machine, s vm.SnapshotSpec) error {
			if fn := p.hook().snapshot; fn != nil {
				if err := fn(ctx, s); err != nil {
					return err
				}
			}
			p.seal(m, s.ID)
			return nil
		},
		Clone: func(ctx context.Context, s vm.CloneSpec) error {
			if fn := p.hook().clone; fn != nil {
				return fn(ctx, s)
			}
			return nil
		},
		Born: p.born, Destroy: p.destroyed,
		Guest: func(ctx context.Context, m *vmtest.Machine, port int) (net.Conn, error) {
			if port != guest.Port {
				return nil, fmt.Errorf("dial port %d of a guest in memory: it has only guestd's", port)
			}
			return p.machine(m).Guest.Dial(ctx)
		},
	})
	p.SetHostClass(vm.HostClass{Provider: "memory", Version: "1", Machine: "memory", CPU: "none", Accelerator: vm.AccelKVM})
	return p
}

func (p *Provider) hook() hooks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hooks
}

func (p *Provider) set(change func(*hooks)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.hooks)
}

// OnCreate makes every Create call fn first; its error is Create's.
func (p *Provider) OnCreate(fn func(context.Context, vm.Spec) error) {
	p.set(func(h *hooks) { h.create = fn })
}

// OnSnapshot makes every Snapshot call fn first; its error is Snapshot's.
func (p *Provider) OnSnapshot(fn func(context.Context, vm.SnapshotSpec) error) {
	p.set(func(h *hooks) { h.snapshot = fn })
}

// OnClone makes every Clone call fn first; its error is Clone's.
func (p *Provider) OnClone(fn func(context.Context, vm.CloneSpec) error) {
	p.set(func(h *hooks) { h.clone = fn })
}

// OnSealed is called when a snapshot is there and its caller does not know yet.
func (p *Provider) OnSealed(fn func(context.Context)) { p.set(func(h *hooks) { h.sealed = fn }) }

// OnCloned is called when a clone runs and its caller does not know yet.
func (p *Provider) OnCloned(fn func(context.Context)) { p.set(func(h *hooks) { h.cloned = fn }) }

// Snapshot implements vm.Snapshotter.
func (p *Provider) Snapshot(ctx context.Context, m vm.Machine, spec vm.SnapshotSpec) (vm.Sealed, error) {
	s, err := p.Provider.Snapshot(ctx, m, spec)
	if fn := p.hook().sealed; err == nil && fn != nil {
		fn(ctx)
	}
	return s, err
}

// Clone implements vm.Snapshotter.
func (p *Provider) Clone(ctx context.Context, spec vm.CloneSpec) (vm.Machine, error) {
	m, err := p.Provider.Clone(ctx, spec)
	if fn := p.hook().cloned; err == nil && fn != nil {
		fn(ctx)
	}
	return m, err
}

// GuestOf chooses the guest of a new machine.
func (p *Provider) GuestOf(fn func(vm.Spec) guesttest.Config) {
	p.set(func(h *hooks) { h.guestOf = fn })
}

// OnBorn is called with every new machine before the host knows it.
func (p *Provider) OnBorn(fn func(*Machine)) { p.set(func(h *hooks) { h.born = fn }) }

// born gives a new machine its guest.
func (p *Provider) born(fake *vmtest.Machine) error {
	h := p.hook()
	var cfg guesttest.Config
	if h.guestOf != nil {
		cfg = h.guestOf(fake.Spec())
	}
	var given guest.Config
	if err := json.Unmarshal(fake.Spec().GuestConfig, &given); len(fake.Spec().GuestConfig) > 0 && err != nil {
		return fmt.Errorf("read guest config: %w", err)
	}
	m := &Machine{Machine: fake, Spec: fake.Spec(), given: given.Token, first: given.Token}
	p.mu.Lock()
	if _, id := fake.Origin(); id != "" {
		m.first = p.tokens[id]
	}
	p.mu.Unlock()
	cfg.Token = m.first
	m.Guest = guesttest.Start(p.tb, cfg)
	if m.Guest.Desktop != nil {
		m.Guest.Desktop.Override(DrawnWindows)
	}
	if h.born != nil {
		h.born(m)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machines[fake] = m
	return nil
}

// seal remembers which token the guest takes at this instant.
func (p *Provider) seal(fake *vmtest.Machine, id vm.SnapshotID) {
	m := p.machine(fake)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens[id] = m.first
	if len(m.Guest.Kernel.State().Entropy) > 0 { // it has had its handshake
		p.tokens[id] = m.given
	}
}

func (p *Provider) machine(fake *vmtest.Machine) *Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machines[fake]
}

func (p *Provider) destroyed(fake *vmtest.Machine) error {
	m := p.machine(fake)
	if m == nil {
		return nil // the second time
	}
	if fn := m.hook(); fn != nil {
		if err := fn(); err != nil {
			return err
		}
	}
	m.Guest.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.machines, fake)
	return nil
}

// Export implements vm.Porter. The token of the sealed guest, which real ones
// have in their memory, goes before.
func (p *Provider) Export(ctx context.Context, id vm.SnapshotID, w io.Writer) error {
	p.mu.Lock()
	secret := []byte(p.tokens[id])
	p.mu.Unlock()
	if _, err := w.Write(append([]byte{byte(len(secret))}, secret...)); err != nil {
		return err
	}
	return p.Provider.Export(ctx, id, w)
}

// Import implements vm.Porter.
func (p *Provider) Import(ctx context.Context, id vm.SnapshotID, system vm.Disk, r io.Reader) (vm.Snapshot, error) {
	var size [1]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return vm.Snapshot{}, fmt.Errorf("import snapshot: %w: %w", vm.ErrCorrupt, err)
	}
	secret := make([]byte, size[0])
	if _, err := io.ReadFull(r, secret); err != nil {
		return vm.Snapshot{}, fmt.Errorf("import snapshot: %w: %w", vm.ErrCorrupt, err)
	}
	p.mu.Lock()
	p.tokens[id] = string(secret)
	p.mu.Unlock()
	return p.Provider.Import(ctx, id, system, r)
}

// Recover implements vm.Provider: for each run of the host this is a new daemon.
func (p *Provider) Recover(ctx context.Context) ([]vm.Machine, error) {
	p.Restart()
	p.mu.Lock()
	for fake := range p.machines {
		if fake.Info().State == vm.StateExited {
			delete(p.machines, fake)
		}
	}
	p.mu.Unlock()
	return p.Provider.Recover(ctx)
}

// Capabilities implements vm.Provider.
func (p *Provider) Capabilities(ctx context.Context) (vm.Capabilities, error) {
	caps, err := p.Provider.Capabilities(ctx)
	caps.Limits = []vm.Probe{{Name: "probe-of-a-test", OK: true, Detail: "fine"}}
	return caps, err
}

// Machines returns the machines that exist.
func (p *Provider) Machines() []*Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*Machine
	for _, m := range p.machines {
		list = append(list, m)
	}
	return list
}

// SnapshotIDs are the snapshots that the provider lists.
func (p *Provider) SnapshotIDs() []vm.SnapshotID {
	all, err := p.Snapshots(context.Background())
	if err != nil {
		p.tb.Error(err)
	}
	var ids []vm.SnapshotID
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// Machine is one machine in memory as a test sees it.
type Machine struct {
	*vmtest.Machine

	Spec  vm.Spec
	Guest *guesttest.Guest

	given string // the token of its configuration
	first string // the token that its guest began with

	mu        sync.Mutex
	onDestroy func() error
}

// End ends the machine: vm.ErrGuestShutdown, or an *vm.ExitError for a crash.
func (m *Machine) End(err error) {
	m.Machine.End(err)
	m.Guest.Stop()
}

// OnDestroy makes Destroy call fn first; its error is Destroy's.
func (m *Machine) OnDestroy(fn func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onDestroy = fn
}

func (m *Machine) hook() func() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.onDestroy
}
