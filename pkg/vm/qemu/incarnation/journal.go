package incarnation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/seal"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// Phase is how far an incarnation has come. Only a running one is adopted.
type Phase string

// Phases.
const (
	Creating   Phase = "creating"   // Create has not returned
	Running    Phase = "running"    // handed out
	Destroying Phase = "destroying" // being removed
)

// Version 1 knew no snapshots: its machines cannot be sealed.
const (
	Version = 2
	oldest  = 1
)

// Journal is what a later daemon must know about an incarnation. It is written
// before anything else exists and removed after everything else has gone.
type Journal struct {
	Version     int            `json:"version"`
	ID          vm.ID          `json:"id"`
	Incarnation vm.Incarnation `json:"incarnation"`
	Phase       Phase          `json:"phase"`
	UUID        string         `json:"uuid"`
	// Process is absent until QEMU was started; then UUID finds it.
	Process     *proc.Identity `json:"process,omitempty"`
	QEMU        string         `json:"qemu"` // version
	Accelerator vm.Accelerator `json:"accelerator"`
	Shape       vm.Shape       `json:"shape"`
	Network     vm.NetworkMode `json:"network"`
	Linked      bool           `json:"linked"` // has a network device
	DiskMiB     int64          `json:"disk_mib"`
	Created     time.Time      `json:"created"`
	Started     time.Time      `json:"started,omitzero"`

	Width  int        `json:"width"`
	Height int        `json:"height"`
	Base   store.Base `json:"base"` // of the system disk
	Boot   vm.Boot    `json:"boot,omitzero"`
	// Snapshot is what the machine was cloned from. While it is being made
	// Needs lists what that takes; later it stands on Template and on the
	// overlays in System and Workspace, nearest first.
	Snapshot  vm.SnapshotID `json:"snapshot,omitempty"`
	Needs     []store.Path  `json:"needs,omitempty"`
	Template  store.Path    `json:"template,omitempty"`
	System    []store.Path  `json:"system,omitempty"`
	Workspace []store.Path  `json:"workspace,omitempty"`
	Paused    bool          `json:"paused,omitempty"` // by a caller
	// Sealing is a snapshot in progress: the vCPUs may stand still for it, and
	// the disks may stand on the store already.
	Sealing *seal.Mark `json:"sealing,omitempty"`
}

// Stands lists the files of the store that the machine stands on.
func (j Journal) Stands() []store.Path {
	out := slices.Concat(j.Needs, j.System, j.Workspace)
	if j.Template != "" {
		out = append(out, j.Template)
	}
	if j.Sealing != nil {
		out = append(out, j.Sealing.Files()...)
	}
	return out
}

// Write puts the journal in its place.
func (j Journal) Write(h Home) error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("encode journal: %w", err)
	}
	// Not synced: it has to outlive us, and no machine outlives the host. One
	// that a crash of the host has spoilt is an incarnation to be removed.
	tmp := h.File("." + journalFile + atomicfile.Suffix)
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.Rename(tmp, h.File(journalFile)); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

// ErrNoJournal says: an incarnation that was not journalled yet, or has gone.
var ErrNoJournal = errors.New("no journal")

// Read reads the journal of h; ErrNoJournal when it has none.
func Read(h Home) (Journal, error) {
	var j Journal
	b, err := os.ReadFile(h.File(journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return j, ErrNoJournal
	}
	if err != nil {
		return j, fmt.Errorf("read journal: %w", err)
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, fmt.Errorf("parse journal of %s: %w", h.Inc, err)
	}
	if j.Version < oldest || j.Version > Version || j.ID != h.ID || j.Incarnation != h.Inc || j.UUID != h.UUID {
		return j, fmt.Errorf("journal of %s is another machine's or version's", h.Inc)
	}
	return j, nil
}

// Moved ends a seal: with a mark the machine stands on that snapshot's disks.
func (j *Journal) Moved(mark seal.Mark) {
	j.Sealing = nil
	if mark.Snapshot == "" {
		return
	}
	for _, p := range mark.Files() {
		chain := &j.System
		if _, name := p.Split(); name == store.Workspace {
			chain = &j.Workspace
		}
		if !slices.Contains(*chain, p) {
			*chain = slices.Concat([]store.Path{p}, *chain)
		}
	}
}

// HostClass is what the machine's device model and hypervisor are.
func (j Journal) HostClass(provider string) vm.HostClass {
	return vm.HostClass{Provider: provider, Version: j.QEMU, Machine: argv.MachineType, CPU: argv.CPUModel, Accelerator: j.Accelerator}
}

// Stands lists the files of the store that the machines on disk stand on.
func (r Root) Stands() ([]store.Path, error) {
	homes, _, err := r.All()
	if err != nil {
		return nil, err
	}
	var needs []store.Path
	for _, h := range homes {
		j, err := Read(h)
		if errors.Is(err, ErrNoJournal) {
			continue // not written yet, or about to go: it stands on nothing
		}
		if err != nil {
			return nil, err
		}
		needs = append(needs, j.Stands()...)
	}
	return needs, nil
}
