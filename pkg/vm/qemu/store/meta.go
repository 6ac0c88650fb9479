package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Names of the files of a snapshot.
const (
	RAM       = "ram"   // all of the memory, sparse
	Pages     = "pages" // memory beyond the template's
	VRAM      = "vram"  // pages of the framebuffer
	State     = "state" // of the devices, or a whole migration stream
	System    = "system.qcow2"
	Workspace = "workspace.qcow2"

	metaFile = "meta.json" // there exactly when the snapshot is whole and listed
)

// Path names a file of the store: snapshot id, slash, file name. What a snapshot
// or a machine stands on is a list of such paths, which is all that reference
// counting looks at.
type Path string

// At is the path of a snapshot's file.
func At(id vm.SnapshotID, name string) Path { return Path(path.Join(string(id), name)) }

// Split gives the parts back.
func (p Path) Split() (vm.SnapshotID, string) {
	id, name, _ := strings.Cut(string(p), "/")
	return vm.SnapshotID(id), name
}

func (p Path) validate() error {
	id, name := p.Split()
	if err := id.Validate(); err != nil {
		return fmt.Errorf("path %q: %w", p, err)
	}
	if !slices.Contains([]string{RAM, Pages, VRAM, State, System, Workspace}, name) {
		return fmt.Errorf("path %q: unknown file", p)
	}
	return nil
}

const metaVersion = 1

// Meta describes a whole snapshot.
type Meta struct {
	Version  int         `json:"version"`
	Snapshot vm.Snapshot `json:"snapshot"`
	// Base is the image's disk at the bottom of the system disk.
	Base Base `json:"base"`
	// Boot is what the firmware may not have loaded yet.
	Boot vm.Boot `json:"boot,omitzero"`
	// SystemBytes and WorkspaceBytes are the exact virtual sizes.
	SystemBytes    int64 `json:"system_bytes"`
	WorkspaceBytes int64 `json:"workspace_bytes"`
	// System and Workspace are the overlays of the disks, nearest first, the
	// snapshot's own among them.
	System    []Path `json:"system"`
	Workspace []Path `json:"workspace"`
	// Stream says that State is a migration stream with all of the memory.
	Stream bool `json:"stream,omitzero"`
	// Parts are all files that a clone reads, other snapshots' among them.
	Parts map[Path]Part `json:"parts"`
}

// Base is an immutable disk below an overlay.
type Base struct {
	Path   string `json:"path"`
	Format string `json:"format"`
}

// Part is what a file was when the snapshot was sealed.
type Part struct {
	Bytes int64     `json:"bytes"`
	Inode uint64    `json:"inode"`
	MTime time.Time `json:"mtime"`
	// Digest is hex SHA-256; empty while nobody has asked for it.
	Digest string `json:"digest,omitempty"`

	ctime time.Time // when the inode changed last; of Look
}

// same reports whether a file looks untouched.
func (p Part) same(other Part) bool {
	return p.Bytes == other.Bytes && p.Inode == other.Inode && p.MTime.Equal(other.MTime)
}

// Template is the path of the memory that clones map; empty when they map none.
func (m Meta) Template() Path {
	if m.Stream {
		return ""
	}
	return At(m.Snapshot.Template, RAM)
}

// Own is the path of one of the snapshot's own files.
func (m Meta) Own(name string) Path { return At(m.Snapshot.ID, name) }

// Has reports whether the snapshot has such a file of its own.
func (m Meta) Has(name string) bool {
	_, ok := m.Parts[m.Own(name)]
	return ok
}

// Needs lists all that a clone reads, sorted.
func (m Meta) Needs() []Path {
	out := make([]Path, 0, len(m.Parts))
	for p := range m.Parts {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// Validate reports what makes no sense, for a file that anybody may have written.
func (m Meta) Validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	s := m.Snapshot
	bad(m.Version == metaVersion, "version %d, want %d", m.Version, metaVersion)
	errs = append(errs, s.ID.Validate(), s.Template.Validate())
	bad(s.Shape.VCPUs >= 1 && s.Shape.MemoryMiB >= 1 && s.Shape.MemoryMiB <= 1<<20, "shape %+v", s.Shape)
	bad(s.Width > 0 && s.Height > 0, "screen %dx%d", s.Width, s.Height)
	bad(m.SystemBytes > 0 && m.WorkspaceBytes > 0, "disks of %d and %d bytes", m.SystemBytes, m.WorkspaceBytes)
	bad(m.Base.Path == "" || path.IsAbs(m.Base.Path), "base %q: not absolute", m.Base.Path)
	for p, part := range m.Parts {
		errs = append(errs, p.validate())
		bad(part.Bytes >= 0, "%s: %d bytes", p, part.Bytes)
	}
	for _, p := range slices.Concat(m.System, m.Workspace, []Path{m.Own(State), m.Own(System), m.Own(Workspace)}) {
		_, ok := m.Parts[p]
		bad(ok, "%s is not among the parts", p)
	}
	if t := m.Template(); t != "" {
		_, ok := m.Parts[t]
		bad(ok, "its template is not among the parts")
	}
	return errors.Join(errs...)
}

func parse(b []byte) (Meta, error) {
	var m Meta
	if err := json.Unmarshal(b, &m); err != nil {
		return m, err
	}
	return m, m.Validate()
}

// Newest first, for who shows them.
func byAge(a, b Meta) int {
	return cmp.Or(b.Snapshot.Created.Compare(a.Snapshot.Created), cmp.Compare(a.Snapshot.ID, b.Snapshot.ID))
}
