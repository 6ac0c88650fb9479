package vm

import (
	"errors"
	"fmt"
)

// maxID is the length limit of ids: they are part of socket paths, and a unix
// socket's path holds 107 bytes.
const maxID = 12

// Validate reports whether id may name a desktop.
func (id ID) Validate() error { return validName("desktop id", string(id)) }

// Validate reports whether i may name an incarnation. The form is that of ID.
func (i Incarnation) Validate() error { return validName("incarnation", string(i)) }

func validName(what, s string) error {
	ok := len(s) >= 1 && len(s) <= maxID && s[0] >= 'a' && s[0] <= 'z'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
	}
	if !ok {
		return fmt.Errorf("%w: %s %q: want 1 to %d characters of [a-z0-9], a letter first", ErrInvalid, what, s, maxID)
	}
	return nil
}

// Validate reports all that is wrong with a spec, wrapped in ErrInvalid.
func (s Spec) Validate() error {
	bad := func(ok bool, format string, args ...any) error {
		if ok {
			return nil
		}
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
	return errors.Join(
		s.ID.Validate(),
		s.Incarnation.Validate(),
		bad(s.Shape.VCPUs >= 1 && s.Shape.VCPUs <= 64, "%d vCPUs: want 1 to 64", s.Shape.VCPUs),
		bad(s.Shape.MemoryMiB >= 64 && s.Shape.MemoryMiB <= 1<<20, "%d MiB of memory: want 64 MiB to 1 TiB", s.Shape.MemoryMiB),
		bad(s.Width >= 320 && s.Width <= 8192, "width %d: want 320 to 8192 pixels", s.Width),
		bad(s.Height >= 200 && s.Height <= 8192, "height %d: want 200 to 8192 pixels", s.Height),
		bad(s.Network == NetworkOpen || s.Network == NetworkNone, "network mode %q: want open or none", s.Network),
		bad(len(s.GuestConfig) <= maxGuestConfig, "guest config of %d bytes: want at most %d", len(s.GuestConfig), maxGuestConfig),
		s.System.validate("system disk"),
		s.Workspace.validate("workspace disk"),
	)
}

const (
	maxGuestConfig = 64 << 10
	maxDiskMiB     = 64 << 20
	maxLabel       = 16 // bytes in an ext4 superblock
)

func (d Disk) validate(what string) error {
	switch {
	case d.Base == "" && d.SizeMiB < 1:
		return fmt.Errorf("%w: %s: a fresh disk needs a size", ErrInvalid, what)
	case d.Base != "" && d.BaseFormat != "raw" && d.BaseFormat != "qcow2":
		return fmt.Errorf("%w: %s: base format %q: want raw or qcow2", ErrInvalid, what, d.BaseFormat)
	case d.SizeMiB < 0 || d.SizeMiB > maxDiskMiB:
		return fmt.Errorf("%w: %s: size %d MiB: want at most %d", ErrInvalid, what, d.SizeMiB, maxDiskMiB)
	case d.Source != "" && (d.Base != "" || d.Label != ""):
		return fmt.Errorf("%w: %s: a source besides a base or a label", ErrInvalid, what)
	case d.Filled && d.Source == "":
		return fmt.Errorf("%w: %s: filled, but no source", ErrInvalid, what)
	case len(d.Label) > maxLabel:
		return fmt.Errorf("%w: %s: label %q: want at most %d bytes", ErrInvalid, what, d.Label, maxLabel)
	}
	return nil
}
