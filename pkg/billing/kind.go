package billing

import "slices"

// Kind is what is counted.
type Kind string

// Kinds. Values are whole numbers of the unit in the name.
const (
	// SandboxActiveSeconds count while the vCPUs of an incarnation run.
	SandboxActiveSeconds Kind = "sandbox_active_seconds"
	// SessionAliveSeconds count from the opening of a session to its end.
	SessionAliveSeconds Kind = "session_alive_seconds"
	// BrowserActiveSeconds count while the vCPUs run and a browser has a page open.
	BrowserActiveSeconds Kind = "browser_active_seconds"
	// VCPUSeconds are active seconds times vCPUs.
	VCPUSeconds Kind = "vcpu_seconds"
	// MemoryGiBSeconds count the shape's memory while the process lives, paused or not.
	MemoryGiBSeconds Kind = "memory_gib_seconds"
	// DiskGiBSeconds count what the incarnation's own disks take, as sampled, while
	// it lives. Prices are for GiB-hours: see Unit.
	DiskGiBSeconds Kind = "disk_gib_seconds"
	// EgressBytes went from the guest to the world.
	EgressBytes Kind = "egress_bytes"
	// ViewerSeconds are seconds times people who watch.
	ViewerSeconds Kind = "viewer_seconds"
)

// Kinds lists all kinds in the order in which tables show them.
func Kinds() []Kind {
	return []Kind{
		SandboxActiveSeconds, SessionAliveSeconds, BrowserActiveSeconds, VCPUSeconds, MemoryGiBSeconds, DiskGiBSeconds, EgressBytes,
		ViewerSeconds,
	}
}

// Valid says whether k is one of Kinds.
func (k Kind) Valid() bool { return slices.Contains(Kinds(), k) }

// Unit is how people and prices count a kind: Size units of a row's value, each
// of them one of Base, are one of Name.
type Unit struct {
	Base string // in the words of FOCUS: plural, parts joined with a hyphen
	Name string
	Size int64
}

// Unit of a kind; of an unknown one it is "Units" of size 1.
func (k Kind) Unit() Unit {
	const hour = 3600
	switch k {
	case SandboxActiveSeconds, SessionAliveSeconds, BrowserActiveSeconds:
		return Unit{"Seconds", "Hours", hour}
	case VCPUSeconds:
		return Unit{"vCPU-Seconds", "vCPU-Hours", hour}
	case MemoryGiBSeconds, DiskGiBSeconds:
		return Unit{"GiB-Seconds", "GiB-Hours", hour}
	case EgressBytes:
		return Unit{"Bytes", "GiB", 1 << 30}
	case ViewerSeconds:
		return Unit{"Viewer-Seconds", "Viewer-Hours", hour}
	default:
		return Unit{"Units", "Units", 1}
	}
}
