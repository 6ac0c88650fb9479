package build

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/deskfork/deskfork/pkg/image"
)

const (
	minDiskMiB = 64
	maxDiskMiB = 1 << 20 // 1 TiB
	maxLabel   = 16      // of ext4
	maxPixels  = 16384
)

// patterns of words that reach a command line or a file of the guest.
type patterns struct{ pkg, word, module, uuid, path *regexp.Regexp }

func newPatterns() patterns {
	return patterns{
		pkg:    regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`),
		word:   regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`),
		module: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`),
		uuid:   regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`),
		path:   regexp.MustCompile(`^/[!-~]+$`),
	}
}

// faults collects what is wrong with a recipe.
type faults []error

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func (f *faults) all(field string, re *regexp.Regexp, values []string) {
	for _, v := range values {
		f.check(re.MatchString(v), "%s: bad value %.80q", field, v)
	}
}

// validate joins all faults of a recipe.
func (r *Recipe) validate() error {
	var f faults
	p := newPatterns()
	f.check(image.CheckName(r.Name) == nil, "name: bad value %.80q", r.Name)
	ref, err := image.ParseReference(r.Name + ":" + r.Tag)
	f.check(err == nil && ref.Digest == "", "tag: bad value %.80q", r.Tag)
	f.check(r.Epoch.Unix() > 0 && r.Epoch.Nanosecond() == 0, "epoch: want a time in whole seconds after 1970")
	f.check(len(r.Packages) > 0, "packages: none")
	f.all("packages", p.pkg, r.Packages)
	f.all("exclude", p.path, r.Exclude)
	f.all("include", p.path, r.Include)
	for _, h := range r.Hooks {
		f.check(filepath.IsLocal(h) && p.path.MatchString("/"+h), "hooks: %.80q is not a path below the recipe", h)
	}
	r.validateDebian(&f, p)
	r.validateMachine(&f, p)
	return errors.Join(f...)
}

func (r *Recipe) validateDebian(f *faults, p patterns) {
	f.all("debian.suite", p.word, []string{r.Debian.Suite})
	f.all("debian.variant", p.word, []string{r.Debian.Variant})
	f.check(len(r.Debian.Components) > 0, "debian.components: none")
	f.all("debian.components", p.word, r.Debian.Components)
	f.check(validMirror(r.Debian.Mirror), "debian.mirror: bad URL %.80q", r.Debian.Mirror)
	f.check(r.Debian.SecurityMirror == "" || validMirror(r.Debian.SecurityMirror),
		"debian.security_mirror: bad URL %.80q", r.Debian.SecurityMirror)
}

func (r *Recipe) validateMachine(f *faults, p patterns) {
	f.all("kernel.package", p.pkg, []string{r.Kernel.Package})
	f.all("kernel.modules", p.module, r.Kernel.Modules)
	f.check(r.Kernel.Cmdline != "" && printable(r.Kernel.Cmdline), "kernel.cmdline: want printable ASCII")
	f.check(r.Disk.SizeMiB >= minDiskMiB && r.Disk.SizeMiB <= maxDiskMiB,
		"disk.size_mib: %d is not within %d and %d", r.Disk.SizeMiB, minDiskMiB, maxDiskMiB)
	f.check(r.Disk.ContentMiB >= 0 && r.Disk.ContentMiB <= r.Disk.SizeMiB,
		"disk.content_mib: %d is not within 0 and size_mib", r.Disk.ContentMiB)
	f.check(len(r.Disk.Label) <= maxLabel, "disk.label: more than %d bytes", maxLabel)
	f.all("disk.label", p.word, []string{r.Disk.Label})
	f.all("disk.uuid", p.uuid, []string{r.Disk.UUID})
	f.all("disk.hash_seed", p.uuid, []string{r.Disk.HashSeed})
	f.check(r.Guest.OS == "linux", "guest.os: only linux is built here, not %.80q", r.Guest.OS)
	f.all("guest.hostname", p.word, []string{r.Guest.Hostname})
	f.all("guest.user", p.word, []string{r.Guest.User})
	f.check(r.Guest.UID > 0 && r.Guest.UID < 65534, "guest.uid: %d", r.Guest.UID)
	f.check(image.Park(r.Guest.Park).Valid(), "guest.park: want argv and class, printable, or neither; not %.80q and %.80q",
		r.Guest.Park.Argv, r.Guest.Park.Class)
	_, _, err := r.display()
	f.check(err == nil, "guest.display: want WIDTHxHEIGHT, not %.80q", r.Guest.Display)
}

// display returns the width and height of the default display in pixels.
func (r *Recipe) display() (width, height int, err error) {
	n, err := fmt.Sscanf(r.Guest.Display, "%dx%d", &width, &height)
	if err == nil && (n != 2 || fmt.Sprintf("%dx%d", width, height) != r.Guest.Display) {
		err = errors.New("trailing text")
	}
	if err == nil && (width < 1 || height < 1 || width > maxPixels || height > maxPixels) {
		err = errors.New("out of range")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("parse display %.80q: %w", r.Guest.Display, err)
	}
	return width, height, nil
}

// validMirror reports whether s can stand in a sources.list.
func validMirror(s string) bool {
	u, err := url.Parse(s)
	if err != nil || !printable(s) || strings.ContainsAny(s, " []") {
		return false
	}
	switch u.Scheme {
	case "http", "https":
		return u.Host != ""
	case "file", "copy":
		return u.Path != ""
	default:
		return false
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
