package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ManifestVersion is the version of the manifest's layout that this package writes.
const ManifestVersion = 1

// maxManifestBytes bounds what ParseManifest reads.
const maxManifestBytes = 1 << 20

// Format is the format of a disk file, in QEMU's words.
type Format string

// Disk formats. Overlays on an image name its format explicitly; it is never guessed.
const (
	FormatRaw   Format = "raw"
	FormatQcow2 Format = "qcow2"
)

// File returns the name of a disk file in this format, or "" for an unknown format.
func (f Format) File() string {
	switch f {
	case FormatRaw:
		return DiskFileRaw
	case FormatQcow2:
		return DiskFileQcow2
	default:
		return ""
	}
}

// File is one file of an image.
type File struct {
	Size   int64  `json:"size"`   // bytes, exactly
	Digest Digest `json:"digest"` // SHA-256 of its bytes; of a disk see DiskDigest
}

// Disk is the system disk.
type Disk struct {
	File
	Format      Format `json:"format"`
	VirtualSize int64  `json:"virtual_size"` // bytes that the guest sees
}

// Boot is how the hypervisor starts the kernel: directly, without firmware or boot loader.
type Boot struct {
	Kernel        File   `json:"kernel"`
	Initrd        File   `json:"initrd"`
	Cmdline       string `json:"cmdline"`
	KernelVersion string `json:"kernel_version"`
}

// Guest is what runs in the image.
type Guest struct {
	OS     string `json:"os"`     // GOOS value
	Arch   string `json:"arch"`   // GOARCH value
	User   string `json:"user"`   // whose desktop it is
	UID    int    `json:"uid"`    //
	Width  int    `json:"width"`  // of the default display, pixels
	Height int    `json:"height"` // of the default display, pixels
	// Park is started, and taken off the screen, before a boot snapshot of the
	// image is sealed. Empty: nothing is.
	Park Park `json:"park,omitzero"`
}

// Park is a program that stands ready behind the screen.
type Park struct {
	Argv  []string `json:"argv,omitempty"`
	Class string   `json:"class,omitempty"` // of its window
}

// Valid reports whether p is empty or whole.
func (p Park) Valid() bool {
	for _, arg := range p.Argv {
		if arg == "" || !printable(arg) {
			return false
		}
	}
	return (len(p.Argv) == 0) == (p.Class == "") && printable(p.Class)
}

// Build is where an image comes from; no part of its identity.
type Build struct {
	Recipe      Digest            `json:"recipe"`       // over recipe, overlay, guest binaries and builder
	Description string            `json:"description"`  //
	Tools       map[string]string `json:"tools"`        // versions of what built it
	Seconds     float64           `json:"seconds"`      // how long that took
	SourceDate  time.Time         `json:"source_date"`  // no file in the image is newer
	GuestBinary map[string]Digest `json:"guest_binary"` // by path in the guest
}

// Manifest says what an image is. Disk, Boot and Guest's OS and Arch make its digest.
type Manifest struct {
	Version int       `json:"version"`
	Digest  Digest    `json:"digest"`
	Name    string    `json:"name"` // it was built under
	Tag     string    `json:"tag"`  // it was built under
	Created time.Time `json:"created"`
	Disk    Disk      `json:"disk"`
	Boot    Boot      `json:"boot"`
	Guest   Guest     `json:"guest"`
	Build   Build     `json:"build"`
}

// ParseManifest reads a manifest strictly: unknown fields, trailing data, a digest that
// does not follow from the parts and values out of range are errors wrapping ErrBadManifest.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if len(data) > maxManifestBytes {
		return m, fmt.Errorf("parse manifest: larger than %d bytes: %w", maxManifestBytes, ErrBadManifest)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, fmt.Errorf("parse manifest: %w: %w", ErrBadManifest, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("parse manifest: data after its end: %w", ErrBadManifest)
	}
	return m, m.Validate()
}

// Validate joins all faults of the manifest; each wraps ErrBadManifest.
func (m Manifest) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("check manifest: "+format+": %w", append(args, ErrBadManifest)...))
		}
	}
	check(m.Version == ManifestVersion, "version %d is not %d", m.Version, ManifestVersion)
	check(CheckName(m.Name) == nil && validName(m.Tag, true), "name %.80q or tag %.80q", m.Name, m.Tag)
	check(m.Disk.Format.File() != "", "disk format %.80q", m.Disk.Format)
	check(m.Disk.validSize(), "disk of %d bytes with virtual size %d", m.Disk.Size, m.Disk.VirtualSize)
	for name, f := range m.files() {
		_, err := ParseDigest(string(f.Digest))
		check(err == nil && f.Size > 0, "%s of %d bytes with digest %.80q", name, f.Size, f.Digest)
	}
	check(printable(m.Boot.Cmdline), "kernel command line is not printable ASCII")
	check(m.Guest.OS != "" && m.Guest.Arch != "", "guest without system or architecture")
	check(m.Guest.Park.Valid(), "parked program %.80q with window %.80q", m.Guest.Park.Argv, m.Guest.Park.Class)
	check(m.Guest.Width > 0 && m.Guest.Height > 0, "display of %dx%d pixels", m.Guest.Width, m.Guest.Height)
	if len(errs) == 0 {
		want := m.ComputeDigest()
		check(m.Digest == want, "digest %.80q does not follow from the parts, which give %s", m.Digest, want)
	}
	return errors.Join(errs...)
}

// validSize reports whether file and disk can have these sizes.
func (d Disk) validSize() bool {
	return d.VirtualSize > 0 && (d.Format != FormatRaw || d.VirtualSize == d.Size)
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// ComputeDigest is the image's identity: a hash over the digests of disk, kernel and
// initramfs, the disk's format and virtual size, the command line and the guest's system.
func (m Manifest) ComputeDigest() Digest {
	h := sha256.New()
	fmt.Fprintf(h, "deskfork image %d\n", ManifestVersion)
	fmt.Fprintf(h, "disk %q %d %q\n", m.Disk.Format, m.Disk.VirtualSize, m.Disk.Digest)
	fmt.Fprintf(h, "kernel %q\ninitrd %q\n", m.Boot.Kernel.Digest, m.Boot.Initrd.Digest)
	fmt.Fprintf(h, "cmdline %q\nguest %q %q\n", m.Boot.Cmdline, m.Guest.OS, m.Guest.Arch)
	return digestOf(h.Sum(nil))
}

// Reference is the name and tag that the image was built under.
func (m Manifest) Reference() Reference { return Reference{Name: m.Name, Tag: m.Tag} }

// files are the image's files by name.
func (m Manifest) files() map[string]File {
	return map[string]File{
		m.Disk.Format.File(): m.Disk.File,
		KernelFile:           m.Boot.Kernel,
		InitrdFile:           m.Boot.Initrd,
	}
}

// encode is the manifest as it is written to disk.
func (m Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return append(data, '\n'), nil
}
