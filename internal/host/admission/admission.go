// Package admission decides whether one more desktop fits into the host's
// memory and disk. A refusal says the numbers it was decided by.
//
// Memory of a running machine is already missing from what the kernel calls
// available; a starting one has touched little of it. So what counts against
// the available memory is the full size of those that are starting, and of the
// one that asks.
package admission

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// ErrNoCapacity is what every refusal is.
var ErrNoCapacity = errors.New("no capacity")

const mib = 1 << 20

// Usage is what the host has at one instant, in bytes.
type Usage struct {
	MemoryTotal     int64
	MemoryAvailable int64
	DiskTotal       int64
	DiskAvailable   int64 // to an ordinary user, where the data directory lies
}

// Need is what one desktop takes, in MiB.
type Need struct {
	MemoryMiB int64 // of the shape
	DiskMiB   int64 // worst case: every block of both disks written; 0: it has them
	// Clone says that the machine maps the memory of a snapshot: it takes little
	// of its own while it starts, and what it takes later is measured.
	Clone bool
	// OwnMiB is what a clone holds from the start beyond the memory that it maps:
	// the pages changed since its template.
	OwnMiB int64
}

// Config of a ledger. All sizes in MiB.
type Config struct {
	Usage func() (Usage, error) // required
	// OverheadMiB is the hypervisor's own memory for one machine. Default 256.
	OverheadMiB int64
	// CloneMiB is the private memory of a clone until it is measured. Default 160.
	CloneMiB int64
	// MemoryFloorMiB of memory stay free. Default 512.
	MemoryFloorMiB int64
	// DiskFloorMiB of disk stay free. Default 2048.
	DiskFloorMiB int64
	// BootDiskMiB is what a desktop writes while it starts. Default 512.
	BootDiskMiB int64
}

// Ledger keeps what starting desktops have reserved. Safe for concurrent use.
type Ledger struct {
	cfg Config

	mu       sync.Mutex
	starting int   // guarded by mu
	memory   int64 // MiB reserved, guarded by mu
	disk     int64 // MiB reserved, guarded by mu
}

// New makes a ledger.
func New(cfg Config) (*Ledger, error) {
	if cfg.Usage == nil {
		return nil, errors.New("admission needs a way to see the host's usage")
	}
	cfg.OverheadMiB = cmp.Or(cfg.OverheadMiB, 256)
	cfg.CloneMiB = cmp.Or(cfg.CloneMiB, 160)
	cfg.MemoryFloorMiB = cmp.Or(cfg.MemoryFloorMiB, 512)
	cfg.DiskFloorMiB = cmp.Or(cfg.DiskFloorMiB, 2048)
	cfg.BootDiskMiB = cmp.Or(cfg.BootDiskMiB, 512)
	return &Ledger{cfg: cfg}, nil
}

// Reserve admits a desktop or refuses with ErrNoCapacity. The reservation holds
// until release, which may be called more than once: when the desktop has
// started, or has failed to.
func (l *Ledger) Reserve(need Need) (release func(), err error) {
	usage, err := l.cfg.Usage()
	if err != nil {
		return nil, fmt.Errorf("see what the host has left: %w", err)
	}
	memory := need.MemoryMiB + l.cfg.OverheadMiB
	if need.Clone {
		memory = need.OwnMiB + l.cfg.CloneMiB
	}
	disk := min(need.DiskMiB, l.cfg.BootDiskMiB)
	l.mu.Lock()
	defer l.mu.Unlock()
	if why := l.refusal(need, usage, memory, disk); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoCapacity, why)
	}
	l.starting++
	l.memory += memory
	l.disk += disk
	var once sync.Once
	return func() {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.starting--
			l.memory -= memory
			l.disk -= disk
		})
	}, nil
}

// Short says that memory is about to run out: less than twice what is kept free
// is left.
func (l *Ledger) Short() bool {
	usage, err := l.cfg.Usage()
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return usage.MemoryAvailable/mib-l.memory < 2*l.cfg.MemoryFloorMiB
}

// refusal says why a need does not fit; empty when it does. l.mu is held.
func (l *Ledger) refusal(need Need, u Usage, memory, disk int64) string {
	var faults []string
	available := u.MemoryAvailable / mib
	if available-l.memory-memory < l.cfg.MemoryFloorMiB {
		what := fmt.Sprintf("%d for the shape, %d for the hypervisor", need.MemoryMiB, l.cfg.OverheadMiB)
		if need.Clone {
			what = fmt.Sprintf("%d changed since its template, %d of a clone's own until it is measured", need.OwnMiB, l.cfg.CloneMiB)
		}
		faults = append(faults, fmt.Sprintf(
			"memory: needs %d MiB (%s); %d MiB available, %d reserved by %d starting, %d kept free",
			memory, what, available, l.memory, l.starting, l.cfg.MemoryFloorMiB))
	}
	free := u.DiskAvailable / mib
	switch {
	case need.DiskMiB == 0: // it has its disks
	case free < need.DiskMiB:
		faults = append(faults, fmt.Sprintf(
			"disk: would grow to %d MiB at worst; %d MiB available", need.DiskMiB, free))
	case free-l.disk-disk < l.cfg.DiskFloorMiB:
		faults = append(faults, fmt.Sprintf(
			"disk: needs %d MiB to start; %d MiB available, %d reserved by %d starting, %d kept free",
			disk, free, l.disk, l.starting, l.cfg.DiskFloorMiB))
	}
	return strings.Join(faults, "; ")
}
