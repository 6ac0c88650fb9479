// Package live speaks the QMP of snapshots, clones and forks: device state
// without memory, the framebuffer's place, overlays under a running machine, and
// loading all that again. It knows no journal and no store.
package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// QEMU's run states that matter here.
const (
	Running   = "running"
	InMigrate = "inmigrate"
	Shutdown  = "shutdown"
	Paused    = "paused"
	// PostMigrate: a stream of all memory was written, the disks are closed.
	PostMigrate = "postmigrate"
)

// Status asks for the run state.
func Status(ctx context.Context, mon *qmp.Client) (string, error) {
	var now struct{ Status string }
	err := mon.Execute(ctx, "query-status", nil, &now)
	return now.Status, err
}

// Shows is an error when QEMU serves no display.
func Shows(ctx context.Context, mon *qmp.Client) error {
	var vnc struct{ Enabled bool }
	if err := mon.Execute(ctx, "query-vnc", nil, &vnc); err != nil {
		return err
	}
	if !vnc.Enabled {
		return errors.New("QEMU serves no display")
	}
	return nil
}

// Stop stops the vCPUs and drains the disks.
func Stop(ctx context.Context, mon *qmp.Client) error { return mon.Execute(ctx, "stop", nil, nil) }

// Cont lets the vCPUs run.
func Cont(ctx context.Context, mon *qmp.Client) error { return mon.Execute(ctx, "cont", nil, nil) }

// SaveDevices writes the state of all devices, without any memory, into a file
// that QEMU may write. The command bears Xen's name and works for all.
func SaveDevices(ctx context.Context, mon *qmp.Client, path string) error {
	return mon.Execute(ctx, "xen-save-devices-state", map[string]any{"filename": path, "live": false}, nil)
}

// ErrNoFramebuffer says: the framebuffer has no address in QEMU's memory now.
var ErrNoFramebuffer = errors.New("the framebuffer is not mapped")

// Framebuffer finds the first screen's memory: its address in QEMU's address
// space and its size in bytes.
func Framebuffer(ctx context.Context, mon *qmp.Client) (addr uint64, size int64, err error) {
	var buses []struct {
		Devices []struct {
			ID      string `json:"qdev_id"`
			Regions []struct {
				BAR     int   `json:"bar"`
				Address int64 `json:"address"`
				Size    int64 `json:"size"`
			} `json:"regions"`
		} `json:"devices"`
	}
	if err := mon.Execute(ctx, "query-pci", nil, &buses); err != nil {
		return 0, 0, err
	}
	gpa := int64(-1)
	for _, b := range buses {
		for _, d := range b.Devices {
			for _, r := range d.Regions {
				if d.ID == argv.DisplayID && r.BAR == 0 {
					gpa, size = r.Address, r.Size
				}
			}
		}
	}
	if gpa <= 0 || size <= 0 {
		return 0, 0, ErrNoFramebuffer
	}
	text, err := mon.HMP(ctx, fmt.Sprintf("gpa2hva 0x%x", gpa))
	if err != nil {
		return 0, 0, err
	}
	addr, err = parseHVA(text)
	return addr, size, err
}

// parseHVA reads "Host virtual address for 0xfe000000 (vga.vram) is 0x7f…".
// Another region at that address means that the framebuffer is not there.
func parseHVA(text string) (uint64, error) {
	_, rest, ok := strings.Cut(text, "(vga.vram) is 0x")
	if !ok {
		return 0, fmt.Errorf("%w: %s", ErrNoFramebuffer, strings.TrimSpace(text))
	}
	addr, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: address %.40q", ErrNoFramebuffer, rest)
	}
	return addr, nil
}

// fdName is what a passed descriptor is called while it is used.
const fdName = "deskfork"

// Load feeds a state to a QEMU that waits for it, and returns when QEMU has
// taken it in; the vCPUs stand still then.
func Load(ctx context.Context, mon *qmp.Client, f *os.File) error {
	if err := mon.SendFile(ctx, fdName, f); err != nil {
		return err
	}
	// Else QEMU has the guest tell its network five times in half a second where it
	// is, of which its services hear too. It is the only one in its network. Not 0:
	// the network device's timer is gone then, and a guest that resets the device, as
	// it does when it switches itself off, ends QEMU 7.2 (timer_del of nothing).
	if err := mon.Execute(ctx, "migrate-set-parameters", map[string]any{"announce-rounds": 1}, nil); err != nil {
		return err
	}
	if err := mon.Execute(ctx, "migrate-incoming", map[string]any{"uri": "fd:" + fdName}, nil); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		status, err := Status(ctx, mon)
		if err != nil {
			return fmt.Errorf("wait for the state to be loaded: %w", err)
		}
		if status != InMigrate {
			return loaded(ctx, mon, status)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the state to be loaded: %w", ctx.Err())
		}
	}
}

type migration struct {
	Status string
	Desc   string `json:"error-desc"`
}

func loaded(ctx context.Context, mon *qmp.Client, status string) error {
	var m migration
	if err := mon.Execute(ctx, "query-migrate", nil, &m); err != nil {
		return err
	}
	if m.Status != "completed" || status != Paused {
		return fmt.Errorf("state was not loaded: machine %s, migration %s %s", status, m.Status, m.Desc)
	}
	return nil
}

// SaveStream writes a whole migration stream, memory included, into f. The machine
// has to stand still; it can go on afterwards.
func SaveStream(ctx context.Context, mon *qmp.Client, f *os.File) error {
	if err := mon.Execute(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 40}, nil); err != nil {
		return err
	}
	if err := mon.SendFile(ctx, fdName, f); err != nil {
		return err
	}
	if err := mon.Execute(ctx, "migrate", map[string]any{"uri": "fd:" + fdName}, nil); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var m migration
		if err := mon.Execute(ctx, "query-migrate", nil, &m); err != nil {
			return err
		}
		switch m.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("migration stream %s: %s", m.Status, m.Desc)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = mon.Execute(context.WithoutCancel(ctx), "migrate_cancel", nil, nil)
			return fmt.Errorf("wait for the migration stream: %w", ctx.Err())
		}
	}
}

// Give hands f to QEMU and keeps it there until take is called.
func Give(ctx context.Context, mon *qmp.Client, f *os.File) (take func(context.Context) error, err error) {
	const name = "deskfork-template"
	if err := mon.SendFile(ctx, name, f); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return mon.Execute(ctx, "closefd", map[string]any{"fdname": name}, nil)
	}, nil
}
