package live

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Disk is a disk of a machine as its device has it now.
type Disk struct {
	ID    string // of the device, and stem of its nodes' names: system, workspace
	Node  string // the top one
	File  string // the top one's
	Bytes int64  // virtual size
	Flush bool   // the guest's flushes count
	Depth int    // nodes below the top one
}

// image is ImageInfo of QAPI, as far as it matters.
type image struct {
	Size    int64  `json:"virtual-size"`
	Backing *image `json:"backing-image"`
}

func (i *image) depth() int {
	if i == nil || i.Backing == nil {
		return 0
	}
	return 1 + i.Backing.depth()
}

// node is BlockDeviceInfo of QAPI, as far as it matters.
type node struct {
	Name  string `json:"node-name"`
	File  string `json:"file"`
	Image image  `json:"image"`
	Cache struct {
		NoFlush bool `json:"no-flush"`
	} `json:"cache"`
}

func nodes(ctx context.Context, mon *qmp.Client) (map[string]node, error) {
	var list []node
	if err := mon.Execute(ctx, "query-named-block-nodes", map[string]any{"flat": true}, &list); err != nil {
		return nil, err
	}
	out := make(map[string]node, len(list))
	for _, n := range list {
		out[n.Name] = n
	}
	return out, nil
}

// Disks asks for the disks with these device ids, in that order.
func Disks(ctx context.Context, mon *qmp.Client, ids ...string) ([]Disk, error) {
	var blocks []struct {
		QDev     string `json:"qdev"`
		Inserted *node  `json:"inserted"`
	}
	if err := mon.Execute(ctx, "query-block", nil, &blocks); err != nil {
		return nil, err
	}
	// The file of a format node may be told as a JSON description of all below
	// it; that of a file node is its name.
	files, err := nodes(ctx, mon)
	if err != nil {
		return nil, err
	}
	out := make([]Disk, len(ids))
	for i, id := range ids {
		for _, b := range blocks {
			if b.Inserted == nil || b.QDev != id && !strings.Contains(b.QDev+"/", "/"+id+"/") {
				continue
			}
			n := b.Inserted
			out[i] = Disk{
				ID: id, Node: n.Name, File: files[n.Name+fileSuffix].File,
				Bytes: n.Image.Size, Flush: !n.Cache.NoFlush, Depth: n.Image.depth(),
			}
		}
		if out[i].Node == "" || out[i].File == "" {
			return nil, fmt.Errorf("QEMU shows no disk %q", id)
		}
	}
	return out, nil
}

// Unread is boot as long as the guest may not have loaded all of it: while it has
// read nothing from the disk with this device id. Afterwards it is empty: a clone
// then need not hold it once more.
func Unread(ctx context.Context, mon *qmp.Client, id string, boot vm.Boot) (vm.Boot, error) {
	if boot.Kernel == "" {
		return vm.Boot{}, nil
	}
	var disks []struct {
		QDev  string `json:"qdev"`
		Stats struct {
			Reads int64 `json:"rd_operations"`
		} `json:"stats"`
	}
	if err := mon.Execute(ctx, "query-blockstats", nil, &disks); err != nil {
		return vm.Boot{}, err
	}
	for _, d := range disks {
		if strings.Contains(d.QDev+"/", "/"+id+"/") && d.Stats.Reads > 0 {
			return vm.Boot{}, nil
		}
	}
	return boot, nil
}

// Number is the first that no node of these disks ends in.
func Number(ctx context.Context, mon *qmp.Client, ids ...string) (int, error) {
	all, err := nodes(ctx, mon)
	if err != nil {
		return 0, err
	}
	next := 1
	for name := range all {
		for _, id := range ids {
			digits, ok := strings.CutPrefix(name, id)
			if k, err := strconv.Atoi(strings.TrimSuffix(digits, fileSuffix)); ok && err == nil && k >= next {
				next = k + 1
			}
		}
	}
	return next, nil
}

const fileSuffix = "-file"

// Overlay is a file to become the new top of a disk. It exists and names its
// backing file.
type Overlay struct {
	Disk Disk
	Node string // at most 31 bytes
	File string
}

// Add opens overlays without anything below them. Drop takes them back.
func Add(ctx context.Context, mon *qmp.Client, overlays []Overlay) error {
	for _, o := range overlays {
		cache := map[string]any{"direct": false, "no-flush": !o.Disk.Flush}
		for _, node := range []map[string]any{
			{"driver": "file", "node-name": o.Node + fileSuffix, "filename": o.File, "discard": "unmap", "cache": cache},
			{
				"driver": "qcow2", "node-name": o.Node, "file": o.Node + fileSuffix, "backing": nil,
				"discard": "unmap", "detect-zeroes": "unmap", "cache": cache,
			},
		} {
			if err := mon.Execute(ctx, "blockdev-add", node, nil); err != nil {
				return errors.Join(fmt.Errorf("open overlay %s: %w", o.Node, err), Drop(ctx, mon, overlays))
			}
		}
	}
	return nil
}

// Drop closes overlays that were added and not switched to.
func Drop(ctx context.Context, mon *qmp.Client, overlays []Overlay) error {
	var errs []error
	for _, o := range overlays {
		for _, node := range []string{o.Node, o.Node + fileSuffix} {
			err := mon.Execute(ctx, "blockdev-del", map[string]any{"node-name": node}, nil)
			if err != nil && !strings.Contains(err.Error(), "Failed to find node") {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Switch puts all overlays on top of their disks, or none.
func Switch(ctx context.Context, mon *qmp.Client, overlays []Overlay) error {
	actions := make([]map[string]any, 0, len(overlays))
	for _, o := range overlays {
		actions = append(actions, map[string]any{
			"type": "blockdev-snapshot",
			"data": map[string]any{"node": o.Disk.Node, "overlay": o.Node},
		})
	}
	return mon.Execute(ctx, "transaction", map[string]any{"actions": actions}, nil)
}

// Announce tells the guest the size of a disk again, for one that was changed
// under its driver.
func Announce(ctx context.Context, mon *qmp.Client, d Disk) error {
	return mon.Execute(ctx, "block_resize", map[string]any{"node-name": d.Node, "size": d.Bytes}, nil)
}
