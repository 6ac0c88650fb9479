// Package port carries snapshots between hosts: one stream with the memory, the
// devices' state and what the disks hold beyond the image.
//
// The stream is a tar in zstd. manifest.json comes first and says what follows;
// sums.json comes last, with a SHA-256 of each entry before it. Memory is written
// as the blocks that are not zero, each behind its place and length.
package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/sparse"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

const (
	manifestFile = "manifest.json"
	sumsFile     = "sums.json"
	version      = 1
	maxText      = 1 << 20 // bytes of a JSON entry
)

// manifest is what a stream says of its snapshot.
type manifest struct {
	Version        int         `json:"version"`
	Snapshot       vm.Snapshot `json:"snapshot"`
	SystemBytes    int64       `json:"system_bytes"`
	WorkspaceBytes int64       `json:"workspace_bytes"`
	Stream         bool        `json:"stream,omitzero"`
}

// entries are the names of what follows, in order.
func (m manifest) entries() []string {
	if m.Stream {
		return []string{store.State, store.System, store.Workspace}
	}
	return []string{store.State, store.VRAM, store.RAM, store.System, store.Workspace}
}

const maxMemoryMiB = 1 << 20

// parseManifest believes nothing.
func parseManifest(b []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("parse manifest: %w", err)
	}
	s := m.Snapshot
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(m.Version == version, "version %d, this program knows %d", m.Version, version)
	bad(s.Shape.VCPUs >= 1 && s.Shape.VCPUs <= 64 && s.Shape.MemoryMiB >= 1 && s.Shape.MemoryMiB <= maxMemoryMiB, "shape %+v", s.Shape)
	bad(s.Width >= 320 && s.Width <= 8192 && s.Height >= 200 && s.Height <= 8192, "screen %dx%d", s.Width, s.Height)
	bad(s.Network == vm.NetworkOpen || s.Network == vm.NetworkNone, "network mode %q", s.Network)
	bad(m.SystemBytes > 0 && m.WorkspaceBytes > 0 && max(m.SystemBytes, m.WorkspaceBytes) < 1<<50, "disks of %d and %d bytes", m.SystemBytes, m.WorkspaceBytes)
	bad(s.Host.Provider != "" && s.Host.Version != "", "no host class")
	if err := errors.Join(errs...); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

// parseSums wants a sum for each of names and nothing else.
func parseSums(b []byte, names []string) (map[string]string, error) {
	var sums map[string]string
	if err := json.Unmarshal(b, &sums); err != nil {
		return nil, fmt.Errorf("parse sums: %w", err)
	}
	for _, n := range names {
		if len(sums[n]) != 64 {
			return nil, fmt.Errorf("no sum of %s", path.Base(n))
		}
	}
	if len(sums) != len(names) {
		return nil, fmt.Errorf("%d sums for %d entries", len(sums), len(names))
	}
	return sums, nil
}

// most is how long an entry may be in bytes: a stream cannot fill a disk with
// what the machine never had.
func (m manifest) most(name string) int64 {
	const slack = 1 << 30
	memory := int64(m.Snapshot.Shape.MemoryMiB) << 20
	switch name {
	case store.RAM:
		return memory + memory/sparse.Block*blockHeader + blockHeader
	case store.State:
		if m.Stream {
			return memory + memory/8 + slack
		}
		return slack
	case store.System:
		return m.SystemBytes + m.SystemBytes/8 + slack
	case store.Workspace:
		return m.WorkspaceBytes + m.WorkspaceBytes/8 + slack
	default:
		return slack
	}
}
