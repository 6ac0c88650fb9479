package qemu

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
)

// phase is how far an incarnation has come. Only a running one is adopted.
type phase string

const (
	phaseCreating   phase = "creating"   // Create has not returned
	phaseRunning    phase = "running"    // handed out
	phaseDestroying phase = "destroying" // being removed
)

const journalVersion = 1

// journal is what a later daemon must know about an incarnation. It is written
// before anything else exists and removed after everything else has gone.
type journal struct {
	Version     int            `json:"version"`
	ID          vm.ID          `json:"id"`
	Incarnation vm.Incarnation `json:"incarnation"`
	Phase       phase          `json:"phase"`
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
}

func (j journal) write(l layout) error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return fmt.Errorf("encode journal: %w", err)
	}
	return atomicfile.Write(l.file(journalFile), append(b, '\n'), 0o600)
}

func readJournal(l layout) (journal, error) {
	var j journal
	b, err := os.ReadFile(l.file(journalFile))
	if err != nil {
		return j, fmt.Errorf("read journal: %w", err)
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return j, fmt.Errorf("parse journal of %s: %w", l.inc, err)
	}
	if j.Version != journalVersion || j.ID != l.id || j.Incarnation != l.inc || j.UUID != l.uuid {
		return j, fmt.Errorf("journal of %s is another machine's or version's", l.inc)
	}
	return j, nil
}
